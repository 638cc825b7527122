// Package journal keeps the last changes of a collection of objects, so that it can tell what any of them was at any
// moment, and what has changed since a version.
//
//	             ┌────────────────────────── Journal ───────────────────────────┐
//	Reset ──────►│ begin      log: changes in order                      newest │
//	Add ────────►│   │    ┌──┐ ┌──┐ ┌──┐ ┌──┐ ┌──┐ ┌──┐                        │──► Since(version): changes in order
//	Advance ────►│   └────┤a1├─┤b1├─┤a2├─┤c1├─┤a3├─┤b2│──── dropped from the    │
//	             │        └──┘ └──┘ └──┘ └──┘ └──┘ └──┘     left when too old   │
//	             │   per object, newest first:              or too many         │
//	             │     a: packed a3 ─patch─► a2 ─patch─► a1                     │──► At(key, point), All(point)
//	             │     b: packed b2 ─patch─► b1                                 │
//	             └──────────────────────────────────────────────────────────────┘
//
// The newest state of each object is kept whole, but packed; each earlier state is a patch that makes it from the next
// one. So dropping the oldest changes needs no work on others, and costs nothing but the history. Every 32 changes a
// whole state of the object is kept, so that no read applies more patches than that.
//
// A journal knows no informer and no type: objects are bytes, in any encoding. It keeps what it is given, so the caller
// redacts what must not be kept; a journal of Secrets is refused unless the caller says that this has been done.
//
// # Guarantees
//
//  1. Since yields every change after a version, once and in the order of Add, or fails with ErrTooOld.
//  2. At returns exactly the bytes that were added, or fails; what is returned belongs to the caller.
//  3. Every read sees whole changes: all that Add has returned for, and none that Add has not begun.
//  4. Readers take no lock: they never wait for the writer, nor does it wait for them. A reader that is overtaken by
//     the end of the history gets ErrTooOld.
//  5. The history takes at most Options.MaxBytes together with the current states, and reaches back at most
//     Options.MaxAge. Current states are kept even if they alone take more.
//  6. Nothing here starts a goroutine.
package journal
