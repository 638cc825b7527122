// Package promises tests what an informer promises, through the public API only and against servers that misbehave. The
// table of docs/architecture.md says which file tests which promise.
package promises
