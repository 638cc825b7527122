// Package usercode runs the functions that users give to an informer where they can do no harm, and
// knows no informer.
//
//   - A Caller is a goroutine that runs user code. Await waits for such goroutines, but not for its
//     own, nor for one that
//     itself waits: so a handler may stop the informer that it belongs to.
//   - A Reporter calls OnError and OnMutation on a goroutine of its own, from a bounded queue.
//   - A ThrottledLog writes a repeated message once a minute, and survives a log handler that panics.
package usercode
