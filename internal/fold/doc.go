// Package fold stores encoded objects compactly: it packs them as patches of other objects or with
// a dictionary trained on their kind, and opens them again. All it knows of the encoding is how to
// apply a patch (package patch); the caller supplies the Differ that makes patches.
//
//	                ┌────────────── Packer (one for each collection) ──────────────┐
//	encoded object ─┤ Pack:    template or dictionary of a similar object, or ──┐  │
//	                │          the current dictionary                           ├──┼─► Packed
//	encoded batch ──┤ PackAll: templates of those that resemble each other, for │  │     │
//	                │          the rest a dictionary of their own, if it pays ──┘  │     │
//	                │             │                                                 │     │
//	                │          training ◄── samples of what was packed ◄────────────┼─────┤
//	                └───────────────────────────────────────────────────────────────┘     │
//	                                                                                      ▼
//	Packed (24 B) ─┬─► Dictionary: ≤ 64 KiB, immutable, shared by all that were packed with it; or a template, one object
//	               └─► form │ checksum │ patch of the template, s2 block, or the bytes as they are
//
//	Packed ──► Open, View: from any goroutine, without the Packer
//
// A template is the first of several neighbors that resemble it so closely that patches of it take
// less memory than packing with a dictionary, or hardly more: objects stored as patches open much
// faster, because their template is kept decoded (see Dictionary.Decoded).
//
// A dictionary consists of a random choice of the objects themselves, concatenated. Whatever an
// object has in common with any of them becomes a reference of three bytes. Objects adjacent in key
// order, such as the pods of one workload, have most in common; so a batch of neighbors packed
// together gets its own dictionary, if that pays off. All others use the current one. It is
// retrained when the collection has doubled or was replaced, or when objects pack worse than they
// did. A new dictionary is used if objects outside its samples pack so much better that it saves
// more memory than it takes. Training takes about half a millisecond.
//
// # Guarantees
//
//  1. Open returns exactly the bytes that were packed; a checksum of them proves it. Anything else
//     is an error that wraps ErrCorrupt. A patch also has a checksum over itself and its template,
//     for callers that apply it to the decoded template; whether the patch itself is right is then
//     up to the Differ.
//  2. A Packed is immutable and complete: it refers to the dictionary it needs. No later training, and no
//     Release, takes that away. The garbage collector frees a dictionary that nothing refers to any more.
//  3. Open and View take no lock, and any number of goroutines may call them while others pack.
//  4. Arbitrary bytes (see FromBytes) give an error: no panic, no endless loop, and no more memory than they claim to
//     need, up to MaxOpened.
//  5. Memory grows with the collection. The packer of a small collection holds no dictionary and no samples, and no
//     packer holds working buffers between calls. A dictionary takes less memory than it saves.
//  6. An object that packing does not make smaller is stored as is, and opens by copying.
//  7. Nothing here starts a goroutine.
//
// In other words: a reader needs nothing but a Packed; a writer packs objects, releases those it
// drops, and repacks stale ones when it has the time.
//
// # Where the ideas come from
//
// That raw samples can serve as a dictionary for small messages is known from LZ4; the s2 package
// of github.com/klauspost/compress has such dictionaries for its block format. Selecting frequent
// substrings (the COVER trainer of Zstandard) was tried on pods: it packs 2% to 3% better and takes
// hundreds of times longer to train. A dictionary for each run of neighboring keys comes from
// RocksDB, which has one for each of its sorted files. Measuring the worth of a dictionary on
// held-out samples is cross-validation. Others count the references to a dictionary; here the
// garbage collector knows them anyway.
package fold
