// Package file writes the packed objects of a collection to a file and reads them back, so that a program can start
// without a list.
//
//	file     = prologue, frame of the header, frames of dictionaries and of records, frame of the end
//	prologue = "TIDINGSF" │ format version (2 B) │ flags (2 B) │ salt (32 B)
//	frame    = kind (1 B) │ length (4 B) │ payload │ checksum (4 B)
//	header   = identity │ resource versions │ time of writing
//	record   = namespace │ name │ uid │ resource version │ extra │ number of the dictionary │ packed object
//	end      = number of records │ number of dictionaries
//
// Numbers are little-endian. The checksum of a frame (CRC-32C) covers the prologue, the frame's
// number, and the frame, so that a frame is valid only at its place in its file. A frame of records
// holds about 64 KiB, and a dictionary precedes the first record that needs it; both directions
// stream. A dictionary that is needed again after many others may be repeated, so that a writer
// need not remember all of them.
//
// With a key, the payload of each frame is sealed with AES-256-GCM. HKDF-SHA-256 derives the key of
// the file from the caller's key and the salt; the frame's number is the nonce, and its kind the
// additional data. Without the key, nobody can read, change, swap, drop or add anything, but the
// length of each frame is visible.
//
// # Guarantees
//
//  1. Reading returns what was written, or an error that says what is wrong with the file. A reader
//     that ends without an error has returned all records. One that fails may have returned some:
//     apply them only at the end.
//  2. WriteFile replaces the file atomically once all of it is on disk, or leaves it alone. A
//     process killed meanwhile, or a full disk, does not harm the existing file.
//  3. Files are readable and writable only by their owner (mode 0600).
//  4. Malicious bytes cause an error or, without a key, possibly forged objects. They cause no
//     panic and no endless loop, and reading them needs less memory than 20 times their length:
//     most for the smallest dictionaries, twice for records. A caller that keeps the records, or
//     opens objects (each to at most fold.MaxOpened bytes), has to bound that itself.
//  5. If a key is given, an unencrypted file is never read.
//
// # Where the ideas come from
//
// Write-ahead logs, such as LevelDB's, have checksummed frames and an end mark. A checksum that
// depends on a random number of the file is from SQLite's write-ahead log. Sealing frame by frame,
// with a counter as nonce and a marked end, is the STREAM construction, which age and Tink use.
// Writing a temporary file, then fsync, rename, and fsync of the directory, is the proven way for
// all file systems.
package file
