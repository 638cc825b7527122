package suites

import (
	"io"
	"regexp"
	"time"
)

// Options says what to run, and how.
type Options struct {
	// Root is the folder of this project.
	Root string
	// Unreplaced leaves the imports as they are. It shows which tests fail wherever they run.
	Unreplaced bool
	// ClientGo is the version of client-go, such as v0.37.2. It applies to client-go's suite only;
	// each of the others has a version of its own.
	ClientGo string
	// Inside also replaces imports in the controllers of Kubernetes, not just in their tests, and
	// then work queues and package cache too.
	Inside bool
	// Packages are the packages to run, as their suite names them; empty means the suite's default.
	Packages []string
	// Quick leaves out tests that could fail because the machine is slow, or that take long. Only some suites have a
	// quick part.
	Quick bool
	// Run selects tests by name; nil means all.
	Run *regexp.Regexp
	// Count is how often each test runs, at least once.
	Count int
	// Race turns the race detector on.
	Race bool
	// Limit is the time that a test may take.
	Limit time.Duration
	// Parallel is how many tests of a package run at a time, at least one.
	Parallel int
	// Log receives the output of all tests.
	Log io.Writer
	// Progress receives a line for each package, and the tests in it that failed.
	Progress io.Writer
}

// selects reports whether a test is to run.
func (o *Options) selects(test string) bool { return o.Run == nil || o.Run.MatchString(test) }

// selectsPackage reports whether a package is to run. If no packages are selected, those are that are so by default.
func (o *Options) selectsPackage(name string, byDefault bool) bool {
	if len(o.Packages) == 0 {
		return byDefault
	}
	for _, p := range o.Packages {
		if p == name {
			return true
		}
	}
	return false
}

// Differences are the documented differences of what runs: there are none with unreplaced packages.
func (o *Options) Differences() []Difference {
	if o.Unreplaced {
		return nil
	}
	return Differences
}
