// Package fold keeps encoded objects in little memory: it packs them as patches of others or with a dictionary of their own kind, and
// opens them again. Of the encoding it knows nothing but how to apply a patch (package patch); who uses it brings what makes them.
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
// A template is the first of some neighbors that resemble it so much that patches of it take less memory than packing with a dictionary does, or hardly
// more: an object that is known as a patch is opened much faster, as its template is kept decoded (see Dictionary.Decoded).
//
// A dictionary is made of the objects themselves: a random choice of them, one behind the other. What an object has in
// common with any of them is then a reference of three bytes. Objects that follow each other in the order of keys, such as
// the pods of one workload, have most in common; so a batch of neighbors that is packed together gets a dictionary of its own,
// if it pays for it. All others use the current one. It is trained anew when the collection has doubled or was
// replaced, or when objects pack worse than they did, and it is used if objects that it was not made of pack so much better that
// it saves more memory than it takes. Training takes about half a millisecond.
//
// # Guarantees
//
//  1. What Open returns equals what was packed, byte by byte; a checksum of the opened bytes is kept to prove it. Anything else is an error that
//     wraps ErrCorrupt. A patch has a checksum of itself and its template too, for those who apply it to the decoded template: that
//     it is right then is up to the Differ.
//  2. A Packed is immutable and complete: it refers to the dictionary that it needs. No later training, and no
//     Release, takes that away. When nothing refers to a dictionary any more, the garbage collector frees it.
//  3. Open and View take no lock, and any number of goroutines may call them while others pack.
//  4. Arbitrary bytes (see FromBytes) give an error: no panic, no endless loop, and no more memory than they claim to
//     need, up to MaxOpened.
//  5. Memory grows with the collection. A packer of a small collection holds no dictionary and no samples, and no
//     packer holds working buffers between calls. A dictionary takes less than it saves.
//  6. An object that does not become smaller is kept as it is, and opens by copying.
//  7. Nothing here starts a goroutine.
//
// In other words: a reader holds a Packed and needs nothing else; a writer packs, says what it dropped, and packs
// again what is stale when it has the time.
//
// # Where the ideas come from
//
// That raw samples can be a dictionary for small messages is known from LZ4; the s2 package of
// github.com/klauspost/compress has such dictionaries for its block format. Selecting frequent substrings (the COVER
// trainer of Zstandard) was tried on pods: it packs 2% to 3% better and takes hundreds of times longer to train. A
// dictionary for each run of neighboring keys is RocksDB's, which has one for each of its sorted files. To ask
// samples that were held out what a dictionary is worth is cross-validation. The references to a dictionary, which
// others count, the garbage collector knows anyway.
package fold
