package manager

import (
	"slices"
	"strings"
	"testing"
)

func TestSelect(t *testing.T) {
	for words, want := range map[string]string{
		"*":                                   "replicaset,replicationcontroller",
		"*,*":                                 "replicaset,replicationcontroller",
		"replicaset":                          "replicaset",
		"replicationcontroller,replicaset":    "replicaset,replicationcontroller",
		"replicaset,replicaset":               "replicaset",
		"*,-replicaset":                       "replicationcontroller",
		"-replicaset,*":                       "replicationcontroller",
		"replicaset,*,-replicationcontroller": "replicaset",
	} {
		got, err := Select(strings.Split(words, ","))
		if err != nil || strings.Join(got, ",") != want {
			t.Errorf("%s selects %v, %v; want %s", words, got, err, want)
		}
	}
	for _, words := range [][]string{nil, {""}, {"-"}, {"--replicaset"}, {"ReplicaSet"}, {"-replicaset"}, {"replicaset", "-replicaset"}, {"*", "-replicaset", "-replicationcontroller"}} {
		if got, err := Select(words); err == nil || !strings.Contains(err.Error(), "available: replicaset, replicationcontroller") {
			t.Errorf("%q selects %v, %v; want an error with the available names", words, got, err)
		}
	}
}

func TestNamesAreTheConstructors(t *testing.T) {
	if len(Names()) != len(constructors) || !slices.IsSorted(Names()) {
		t.Errorf("names %v for %d constructors", Names(), len(constructors))
	}
	for _, name := range Names() {
		if constructors[name] == nil {
			t.Errorf("no constructor for %s", name)
		}
	}
}
