// Package recording writes what a source brings to a file, and plays such a file back in the place of the source: lists,
// watches, errors, and the times between them. A failure in one cluster becomes a test that anyone can run.
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
//  1. Recording changes nothing of what the source brings, and fails nothing: a recorder that cannot write stops, and says so
//     in Err and Close.
//  2. Values of Secrets are not written: neither those of Secrets themselves nor those that other objects repeat or carry as a
//     template. Their lengths are. Credentials are not part of what a source brings. A file is made with mode 0600.
//  3. A file has at most Options.MaxBytes. Neither writing nor playing holds more than one entry in memory, but for 24 bytes
//     an entry while playing.
//  4. Every line has a checksum. A damaged file is a *FormatError that names the line; one that ends early is played as far as
//     it goes, and Recording.Incomplete says why it ended.
//
// # Format
//
// A file is text, one entry a line: the CRC-32C of the entry as eight hexadecimal digits, a space, and the entry as JSON. The
// first entry names the format and its version. Others name a collection, begin a list or watch, bring items or a
// batch of events, or end what was begun; each tells the nanoseconds since the recording began.
package recording
