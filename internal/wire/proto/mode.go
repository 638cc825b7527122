package proto

// mode is how the value at hand is decoded: which of the ways to save time and memory are safe for it.
type mode struct {
	// plain is set while an irregular object is decoded. Values may then come twice, and are merged in place, so
	// nothing in them may be shared or deferred.
	plain bool
	// patching is set while a patch is applied to a decoded base, from which the object gets its shared parts:
	// nothing is looked up.
	patching bool
	// keepsBytes says that the object's own strings point into the bytes being decoded.
	keepsBytes bool
	// inPlace says that the bytes will not change any more, so that no copy of them is needed.
	inPlace bool
	// noDefer is above 0 while decoding a value that goes into the table or into a map: it is copied or handed on
	// before the arena settles, so nothing of it may be deferred.
	noDefer int
	// tableDepth is above 0 while decoding a value that goes into the table. It outlives the object, so its strings
	// must not keep the object's bytes in memory.
	tableDepth int
}

// begin sets the mode for an object. What an earlier one left on an error does not matter.
func (m *mode) begin(plain, keepsBytes bool) {
	m.plain, m.keepsBytes, m.noDefer, m.tableDepth = plain, keepsBytes, 0, 0
}

// maxKept is the largest encoding that strings may point into: it lives as long as any of the strings is referenced.
const maxKept = 32 << 10

// aliasesInput reports whether the strings of the value being decoded point into its encoding. They
// never overlap: bytes where they might are decoded in plain mode, which copies strings.
func (d *decoder) aliasesInput() bool { return d.keepsBytes && d.tableDepth == 0 }

// canDefer reports whether parts of the value being decoded may be deferred to the arena.
func (d *decoder) canDefer() bool { return d.noDefer == 0 && !d.plain && !d.opts.NoSharing }

// shares reports whether values are looked up.
func (d *decoder) shares() bool { return d.table != nil && !d.plain && !d.patching }

// sharesValues reports whether strings and values held in place are looked up.
func (d *decoder) sharesValues() bool { return d.shares() && !d.opts.KeepBytes }
