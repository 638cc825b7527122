package suites

import (
	"fmt"
	"slices"
)

// quickPackages are the packages of client-go's suite with a quick part.
var quickPackages = []string{
	"tools/cache",
	"util/workqueue",
	"dynamic/dynamiclister",
	"metadata/metadatalister",
	"listers/extensions/v1beta1",
}

// slowTest is a test that is not in the quick part.
type slowTest struct{ Test, Because string }

// notQuick are the tests of quickPackages that could fail because the machine is slow, or that take long on any.
var notQuick = map[string][]slowTest{
	"tools/cache": {
		{"TestAddOnStoppedSharedInformer", "an informer has to stop within two seconds"},
		{"TestDeltaFIFO_PopShouldUnblockWhenClosed", "each Pop has to return within half a second"},
		{"TestEventPanics", "it waits a minute for an end that, by a documented difference, does not come"},
		{"TestFIFO_PopShouldUnblockWhenClosed", "each Pop has to return within half a second"},
		{"TestIndexer", "an event has to arrive within three seconds"},
		{"TestListAll", "it makes more than two million objects"},
		{"TestNewReflectorWithCustomBackoff", "several lists have to take 250 to 300 ms together"},
		{"TestPanicPropagated", "it waits half a minute for an end that, by a documented difference, does not come"},
		{"TestRealFIFO_PopShouldUnblockWhenClosed", "each Pop has to return within half a second"},
		{"TestRemoveOnStoppedSharedInformer", "an informer has to stop within a second"},
		{"TestSharedInformerErrorHandling", "an error has to be reported within a second"},
		{"TestSharedInformerHandlerAbuse", "it adds handlers while 10,000 events go to all of them: the slower, the more"},
		{"TestShutDownEventHandler_Lifecycles", "an informer has to be synced within two seconds"},
		{"TestWatchList", "one of its cases is a documented difference, and ends when it is given up after two minutes"},
	},
}

// onlyQuick restricts packages to their quick parts.
func onlyQuick(packages []testPackage) {
	for i := range packages {
		for _, slow := range notQuick[packages[i].name] {
			packages[i].leftOut = append(packages[i].leftOut, slow.Test)
		}
	}
}

// checkLeftOut returns an error if a package lacks one of the tests that are left out: it may have another name by now.
func (p *testPackage) checkLeftOut(tests []string) error {
	for _, test := range p.leftOut {
		if !slices.Contains(tests, test) {
			return fmt.Errorf("%s has no %s, which is listed as a test that is not quick", p.name, test)
		}
	}
	return nil
}
