// Package recording records what a source delivers to a file, and plays such a file back in place of the source: lists,
// watches, errors, and the times between them. It turns a failure in one cluster into a test that anyone can run.
//
//	recorder, err := recording.Create("pods.tidings", recording.Options{})
//	factory, err := tidings.NewFactory(config, tidings.Options{Recorder: recorder}) // or recording.Record around any source
//	…
//	rec, err := recording.Open("pods.tidings")
//	src, err := recording.Play[*corev1.Pod](rec, rec.Collections()[0], recording.PlayOptions{})
//	informer, err := tidings.NewInformer(src, tidings.InformerOptions[*corev1.Pod]{})
//
// # Guarantees
//
//  1. Recording does not alter what the source delivers, and never makes it fail: a recorder that
//     cannot write stops recording, and Err and Close report why.
//  2. Values of Secrets are not written, neither of Secrets themselves nor of copies or templates
//     of them in other objects; only their lengths are. A source never delivers the client's
//     credentials. Create uses file mode 0600.
//  3. A file has at most Options.MaxBytes. Writing holds at most one entry in memory; so does
//     playing, apart from 24 bytes per entry.
//  4. Every line has a checksum. A damaged file results in a *FormatError that gives the line; a
//     truncated one is played as far as it goes, and Recording.Incomplete says why it ends.
//
// # Format
//
// A file is text with one entry per line: the CRC-32C of the entry as eight hexadecimal digits, a
// space, and the entry as JSON. The first entry contains the format's name and version. Others
// describe a collection, begin a list or watch, contain an item or a batch of events, or end a list
// or watch; each has a time in nanoseconds since the recording began.
package recording
