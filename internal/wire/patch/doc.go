// Package patch describes an encoded object by how it differs from another one, its base, field by field.
//
// Objects of one collection have most of their fields in common with a neighbor. A patch holds only
// the other fields, so it is smaller than the object compressed with a dictionary. It can be
// applied to the encoding of the base, and also, by the type's decoder, to the decoded base: the
// new object is then made without decoding the common part, which both objects share.
//
// A patch has entries in the order of field numbers, one for each field, or run of fields with the
// same number, that differs from the base:
//
//	head                  how many bytes before the message are copied from the base
//	entries of a message:
//	  number<<3 | Drop                      removes the fields
//	  number<<3 | Set      length, bytes    replaces the fields; the bytes include tags
//	  number<<3 | Within   entries          changes one message
//	  number<<3 | Splice   text             changes one string
//	  number<<3 | List     count, elements  changes elements of a run, which then has count elements
//	  number<<3 | Shift    difference       changes one time by a difference in seconds
//	  number<<3 | Digits   digits           changes one string, where the new part is hexadecimal digits
//	  0                                     the end
//	elements of a list, each preceded by the number of unchanged elements before it:
//	  gap<<2 | 1  entries                   a changed message
//	  gap<<2 | 2  text                      a changed string
//	  gap<<2 | 3  length, bytes             an element without a counterpart in the base
//	  0                                     the end
//	text: length of the prefix and of the suffix to copy from the base, length, bytes between them
//
// All numbers are varints. Package proto makes patches (Differ) and applies them to objects (Patcher).
package patch
