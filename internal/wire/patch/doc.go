// Package patch describes an encoded object as what differs from another one, its base, field by field.
//
// Objects of one collection have most of their fields in common with a neighbor. A patch has only the others, so it takes less room than the
// object compressed with a dictionary. It can be applied to the encoding of the base, and also, by the decoder of the type, to the decoded base: the
// object is then had without decoding what the two have in common, which becomes a part of both.
//
// A patch has entries in the order of field numbers, each for the field or run of fields of one number. What no entry is about is as in the base:
//
//	head                  how many bytes before the message are those of the base
//	entries of a message:
//	  number<<3 | Drop                      the fields are not there
//	  number<<3 | Set      length, bytes    the fields are these, tags and all
//	  number<<3 | Within   entries          one message has changed inside
//	  number<<3 | Splice   text             one string has changed
//	  number<<3 | List     count, elements  a run has so many elements, of which some have changed
//	  number<<3 | Shift    difference       one time has other seconds, so many more
//	  number<<3 | Digits   digits           one string has changed, and what is new are hexadecimal digits
//	  0                                     the end
//	elements of a list, each behind so many that are as in the base:
//	  gap<<2 | 1  entries                   a message that has changed inside
//	  gap<<2 | 2  text                      a string that has changed
//	  gap<<2 | 3  length, bytes             one without a base
//	  0                                     the end
//	text: how many bytes of the base are before it, how many behind it, length, bytes between them
//
// All numbers are varints. Package proto makes patches (Differ) and applies them to objects (Patcher).
package patch
