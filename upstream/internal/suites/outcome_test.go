package suites

import (
	"reflect"
	"testing"
)

func TestReadTest(t *testing.T) {
	for name, c := range map[string]struct {
		output, why string
		want        Report
	}{
		"passed":           {"=== RUN   TestA\n--- PASS: TestA (0.10s)\nPASS\n", "", Report{Passed: 1}},
		"passed each time": {"--- PASS: TestA (0.10s)\n--- PASS: TestA (0.10s)\nPASS\n", "", Report{Passed: 1}},
		"skipped":          {"--- SKIP: TestA (0.00s)\n    a_test.go:1: not here\nPASS\n", "", Report{Skipped: 1}},
		"failed":           {"--- FAIL: TestA (0.10s)\nFAIL\n", "exit status 1", Report{Failures: []Failure{{Test: "TestA"}}}},
		"failed once of two": {
			"--- PASS: TestA (0.10s)\n--- FAIL: TestA (0.10s)\nFAIL\n", "exit status 1", Report{Failures: []Failure{{Test: "TestA"}}},
		},
		"a subtest failed": {
			"--- FAIL: TestA (0.10s)\n    --- PASS: TestA/one (0.00s)\n    --- FAIL: TestA/two (0.00s)\n        --- FAIL: TestA/two/x#01 (0.00s)\nFAIL\n",
			"exit status 1", Report{Failures: []Failure{{Test: "TestA/two/x#01"}}},
		},
		"panicked":        {"=== RUN   TestA\npanic: oh\n", "panic: oh", Report{Failures: []Failure{{"TestA", "panic: oh"}}}},
		"failed after it": {"--- PASS: TestA (0.10s)\nPASS\n", "exit status 1", Report{Failures: []Failure{{"TestA", "exit status 1"}}}},
		"nothing ran":     {"testing: warning: no tests to run\nPASS\n", "", Report{Failures: []Failure{{"TestA", "it ended without a result"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Ran = []string{"TestA"}
			if got := readTest("TestA", c.output, c.why); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestReadGinkgo(t *testing.T) {
	for name, c := range map[string]struct {
		output, why string
		want        Report
	}{
		"passed": {
			"Ran 3 of 5 Specs in 1.0 seconds\nSUCCESS! -- 3 Passed | 0 Failed | 1 Pending | 1 Skipped\n--- PASS: TestAll (1.0s)\n", "",
			Report{Passed: 3, Skipped: 2},
		},
		"failed": {
			"Summarizing 2 Failures:\n  [FAIL] Cache when started [It] reads\n  /tmp/a_test.go:10\n  [TIMEDOUT] Cache [BeforeEach] when stopped ends (/tmp/a_test.go:20)\n" +
				"Ran 3 of 3 Specs in 1.0 seconds\nFAIL! -- 1 Passed | 2 Failed | 0 Pending | 0 Skipped\n", "exit status 1",
			Report{Passed: 1, Failures: []Failure{{Test: "Cache when started [It] reads"}, {Test: "Cache [BeforeEach] when stopped ends"}}},
		},
		"said twice": {
			"  [FAIL] Cache reads\n  [FAIL] Cache reads\nFAIL! -- 1 Passed | 1 Failed | 0 Pending | 0 Skipped\n", "exit status 1",
			Report{Passed: 1, Failures: []Failure{{Test: "Cache reads"}}},
		},
		"took too long": {"Running Suite\n", "it took longer than 1s", Report{Failures: []Failure{{"TestAll", "it took longer than 1s"}}}},
		"no summary":    {"PASS\n", "", Report{Failures: []Failure{{"TestAll", "it ended without a result"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Ran = []string{"TestAll"}
			if got := readGinkgo("TestAll", c.output, c.why); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestHungSubtests(t *testing.T) {
	const output = "=== RUN   TestA/one\n--- PASS: TestB (0.00s)\npanic: test timed out after 1s\n\trunning tests:\n\t\tTestA (1s)\n\t\tTestA/one_(x) (1s)\n\t\tTestA/two (0s)\n\n" +
		"goroutine 1 [running]:\n"
	if got, want := hungSubtests(output), []string{"TestA/one_(x)", "TestA/two"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := hungSubtests("panic: test timed out after 1s\n\trunning tests:\n\t\tTestA (1s)\n\n"); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}
