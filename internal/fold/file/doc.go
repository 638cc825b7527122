// Package file writes the packed objects of a collection to a file, and reads them back, so that a program can start
// without a list.
//
//	file     = prologue, frame of the header, frames of dictionaries and of records, frame of the end
//	prologue = "TIDINGSF" │ format version (2 B) │ flags (2 B) │ salt (32 B)
//	frame    = kind (1 B) │ length (4 B) │ payload │ checksum (4 B)
//	header   = identity │ resource versions │ time of writing
//	record   = namespace │ name │ uid │ resource version │ extra │ number of the dictionary │ packed object
//	end      = number of records │ number of dictionaries
//
// Numbers are little-endian. The checksum of a frame (CRC-32C) is that of the prologue, the frame's number, and the
// frame, so that a frame fits only its place in its file. A frame of records holds about 64 KiB, and a dictionary comes
// before the first record that needs it; both directions stream. A dictionary that is needed again after many others may come
// twice, so that a writer need not remember all.
//
// With a key, the payload of each frame is sealed with AES-256-GCM, with a key that HKDF-SHA-256 derives from
// the caller's and the salt, and with the frame's number as the nonce and its kind as additional data. So whoever
// lacks the key can neither read nor change, swap, drop or add anything, but sees how long each frame is.
//
// # Guarantees
//
//  1. Reading gives what was written, or an error that says what is wrong with the file. A reader that ends without an
//     error has given all records. One that fails may have given some: apply them only at the end.
//  2. WriteFile replaces the file at once, when all of it is on the disk, or leaves it alone. A process that is killed
//     on the way, or a disk that is full, does not harm the file that was there.
//  3. Files are readable and writable by their owner only (mode 0600).
//  4. Hostile bytes give an error, or objects that the key's holder did not write if there is no key. They cause no
//     panic and no endless loop, and need no more memory than a few times their length.
//  5. A file that should be encrypted is never read unless it is.
//
// # Where the ideas come from
//
// Checksummed frames and a mark at the end are what write-ahead logs have, such as LevelDB's. A checksum that
// depends on a number drawn for the file is SQLite's write-ahead log. Sealing frame by frame, with a counter as nonce and
// the end marked, is the STREAM construction, which age and Tink use. Writing beside the file, then fsync, rename, and fsync of the
// directory, is what has proved right for every file system.
package file
