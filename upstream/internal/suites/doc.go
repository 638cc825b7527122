// Package suites runs the tests of other projects on this project's packages: client-go's,
// controller-runtime's, and those of Kubernetes' controllers. The tests come from the module cache
// when they run.
//
// A Suite copies the packages with the tests into a temporary folder and replaces their imports.
// Each test then runs in a process of its own, so that one that panics or waits forever does not
// take others with it. What fails must be a documented Difference, and what is one must fail.
package suites
