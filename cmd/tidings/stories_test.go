//go:build unix

package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidings/tidings/cmd/tidings/internal/history"
	"github.com/tidings/tidings/source/recording"
)

// told is a story, and what somebody who reads it must be able to say.
type told struct {
	scene   string
	lines   int // at most
	answers []answer
}

// answer is a question about what happened, and where the story answers it.
type answer struct{ question, found string }

// stories are the scenes that upstream/cmd/stories records, with real controllers: to record them again, run it there.
var stories = []told{
	{"rollout", 25, []answer{
		{"what was changed, and by whom?", `deploy/web +image nginx:1\.27 → 1\.28  by kubectl-set`},
		{"to which nodes did the new pods go?", `pod/web-\S+ on node-\d → running \+\S+ → ready \+\S+`},
		{"how were the old pods replaced?", `rs/web-\S+ +3 → 2: web-\S+ gone \+\S+`},
		{"is it complete, and how long did it take?", `deploy/web +rolled out in \S+s: 3 of 3 ready`},
		{"did anything go wrong?", `^[^!]*$`},
	}},
	{"crash", 25, []answer{
		{"which pod is in trouble?", `pod/web-\S+ (… .*)?! main`},
		{"what does its container do?", `! main keeps exiting with 1: back-off 10s`},
		{"how often was it started?", `! main exited with 1, start 4`},
		{"does it cost availability?", `deploy/web +! only 0 of 1 ready`},
		{"what does it run, and who made it?", `deploy/web +new: 1 × nginx:crash  by kubectl-create`},
	}},
	{"image", 25, []answer{
		{"what was changed, and by whom?", `deploy/web +image nginx:1\.27 → missing  by kubectl-set`},
		{"what is wrong?", `! cannot pull nginx:missing: not found`},
		{"which pod has it, and where?", `pod/web-\S+ on node-\d .*! cannot pull`},
		{"what was done about it?", `deploy/web +image nginx:missing → 1\.27`},
		{"did that help?", `deploy/web +rolled out in \S+s: 3 of 3 ready`},
	}},
	{"probe", 25, []answer{
		{"what was changed, and by whom?", `deploy/web +image nginx:1\.27 → never  by kubectl-set`},
		{"does the new pod run?", `pod/web-\S+ on node-\d .*→ running`},
		{"why is it not ready?", `! Readiness probe failed: HTTP probe failed with statuscode: 503`},
		{"does it go on?", `statuscode: 503 \(\d+ times in \d+s\)`},
		{"where does the rollout stand?", `deploy/web +! no progress for \d+s: 1 of 3 updated, 3 ready`},
	}},
	{"job", 25, []answer{
		{"who made the Job?", `job/report +new: report:fail  by kubectl-create`},
		{"how did the first pod end?", `pod/report-\S+ +! failed: main exited with 1`},
		{"was it tried again?", `(?s)! failed: main exited with 1.*on node-.*! failed: main exited with 1`},
		{"how did the Job end?", `job/report +! failed: Job has reached the specified backoff limit`},
		{"what succeeded?", `0 of 1 succeeded, 2 pods failed`},
	}},
	{"eviction", 25, []answer{
		{"which pod was evicted?", `pod/web-\S+ ! evicted`},
		{"by whom?", `! evicted: Eviction API`},
		{"what did it cost?", `deploy/web +! only 2 of 3 ready`},
		{"what replaced it?", `pod/web-\S+ on node-\d → running \+\S+ → ready \+\S+`},
		{"is it over?", `deploy/web +available again: 3 of 3 ready`},
	}},
	{"finalizer", 25, []answer{
		{"what was to be deleted?", `cm/held +deleted`},
		{"why did it stay?", `! held by the finalizer example\.com/archive`},
		{"who has to remove that?", `set by archiver`},
		{"when was it gone?", `cm/held +… gone \+7\.\ds`},
		{"did anything else happen?", `^(.*cm/held.*\n)+$`},
	}},
	{"fight", 30, []answer{
		{"who fights?", `deploy/web +! autoscaler and gitops fight`},
		{"over what?", `fight over replicas: 3 ↔ 4`},
		{"who began?", `^\S+ deploy/web +replicas: 3 → 4  by autoscaler`},
		{"how often, and for how long?", `fight over .*\(12 times in \d\.\ds\)`},
		{"what does it cost?", `rs/web-\S+ +4 → 3: web-\S+ gone`},
	}},
	{"deletion", 25, []answer{
		{"what was deleted?", `deploy/web +deleted`},
		{"what went with it?", `with 1 rs, 3 pods`},
		{"how long did that take?", `3 pods \+\d\.\ds`},
		{"is anything left?", `^.*\n$`},
		{"did anything go wrong?", `^[^!]*$`},
	}},
	{"many", 25, []answer{
		{"who scaled it, and how far?", `deploy/web +replicas: 3 → 53  by kubectl-scale`},
		{"how many pods came of that?", `rs/web-\S+ +3 → 53`},
		{"how many of them run, and on how many nodes?", `rs/web-\S+ +(50|[1-4]\d) pods on 3 nodes .*→ running`},
		{"how long did it take?", `deploy/web +scaled in \d\S*s: 53 of 53 ready`},
		{"were there too few of them meanwhile?", `deploy/web +! only \d+ of 53 ready`},
	}},
	{"statefulset", 25, []answer{
		{"what was changed, and by whom?", `sts/db +image postgres:16 → 17  by kubectl-set`},
		{"in which order were the pods replaced?", `(?s)pod/db-2 +stopping.*pod/db-1 +stopping.*pod/db-0 +stopping`},
		{"was each ready before the next was stopped?", `(?s)pod/db-2 +on node.*→ ready.*pod/db-1 +stopping`},
		{"is it complete, and how long did it take?", `sts/db +rolled out in \S+s: 3 of 3 ready`},
		{"did anything go wrong?", `^[^!]*$`},
	}},
	{"drain", 25, []answer{
		{"which node was drained?", `node/node-2 +cordoned: takes no new pods`},
		{"which pods had to go?", `(?s)pod/web-\S+ +! evicted.*pod/web-\S+ +! evicted`},
		{"did the second wait for a replacement of the first?", `(?s)! evicted.*→ ready.*! evicted`},
		{"where are they now?", `pod/web-\S+ +on node-[13]`},
		{"is the node back?", `node/node-2 +uncordoned`},
	}},
	{"namespace", 25, []answer{
		{"what was deleted?", `ns/namespace +deleted`},
		{"what holds it?", `ns/namespace.*! .*finalizers remaining: example\.com/archive`},
		{"which object is that?", `cm/held +.*held by the finalizer example\.com/archive`},
		{"who has to remove it?", `set by archiver`},
		{"when was it gone?", `ns/namespace +.*gone \+`},
	}},
	{"operator", 25, []answer{
		{"what was made, and by whom?", `backup/nightly +new.*by kubectl-create`},
		{"what did the operator do about it?", `(?s)job/nightly +new.*job/nightly +complete in`},
		{"what was then changed, and by whom?", `backup/nightly +schedule: .*every night.*by kubectl-edit`},
		{"what was wrong with that?", `backup/nightly +! not Ready: InvalidSchedule: expected 5 fields`},
		{"is it well again?", `(?s)InvalidSchedule.*backup/nightly +Ready: JobComplete`},
	}},
	{"autoscaler", 40, []answer{
		{"what scales, between which sizes?", `hpa/web +new: 2 to 6 replicas of web`},
		{"what does the autoscaler want?", `hpa/web +wants \d → 4 replicas`},
		{"does it stay there?", `(?s)wants \d → 4 replicas.*wants 4 → 2 replicas.*wants 2 → 4 replicas`},
		{"what is that called?", `deploy/web +! replicas flaps between 2 and 4`},
		{"what does it cost?", `rs/web-\S+ +4 → 2: 2 pods gone`},
	}},
	{"chatter", 40, []answer{
		{"what was changed, and by whom?", `deploy/web +image nginx:1\.27 → 1\.28  by kubectl-set`},
		{"what did the other controller do?", `Synced: page rendered`},
		{"how were the old pods replaced?", `rs/web-\S+ +3 → 2: web-\S+ gone \+\S+`},
		{"is the rollout complete?", `deploy/web +rolled out in \S+s: 3 of 3 ready`},
		{"did anything go wrong?", `^[^!]*$`},
	}},
	{"leases", 25, []answer{
		{"what was changed, and by whom?", `deploy/web +image nginx:1\.27 → 1\.28  by kubectl-set`},
		{"which Lease changed hands?", `lease/controller-1 .*host-1.*host-9`},
		{"how were the old pods replaced?", `rs/web-\S+ +3 → 2: web-\S+ gone \+\S+`},
		{"is the rollout complete?", `deploy/web +rolled out in \S+s: 3 of 3 ready`},
		{"did anything go wrong?", `^[^!]*$`},
	}},
}

// TestStories plays recordings of real controllers, and compares the stories with testdata/stories/NAME.story, which
// -update writes.
func TestStories(t *testing.T) {
	for _, s := range stories {
		t.Run(s.scene, func(t *testing.T) {
			t.Parallel()
			file := unpacked(t, s.scene)
			text := onTerminal(t, 80, true, "replay", file, "--speed", "max", "--no-color")
			compareFile(t, filepath.Join("testdata", "stories", s.scene+".story"), text)
			if n := strings.Count(text, "\n"); n > s.lines {
				t.Errorf("the story takes %d lines, want at most %d", n, s.lines)
			}
			for line := range strings.Lines(text) {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
					t.Errorf("%d columns: %s", n, line)
				}
			}
			unbroken := string(output(t, "replay", file, "--speed", "max"))
			for _, a := range s.answers {
				if !regexp.MustCompile(a.found).MatchString(unbroken) {
					t.Errorf("%s The story does not say %q:\n%s", a.question, a.found, unbroken)
				}
			}
			lacksNothing(t, file, unbroken)
		})
	}
}

// unpacked returns a recording that a program can open.
func unpacked(t *testing.T, scene string) string {
	t.Helper()
	packed, err := os.Open(filepath.Join("testdata", "stories", scene+".tidings.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	content, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), scene+".tidings")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, content); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

// lacksNothing checks that what has weight among the changes of a recording is in the story: pods that come and go,
// what somebody deletes or sets, restarts, and Warnings.
func lacksNothing(t *testing.T, file, story string) {
	t.Helper()
	rec, err := recording.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	checked, folded := 0, map[string]int{}
	for item, err := range history.Of(rec) {
		if err != nil {
			t.Fatal(err)
		}
		if item.Kind != history.Change || item.Initial {
			continue
		}
		for _, words := range weighty(item) {
			checked++
			switch {
			case mentionedTogether(story, words):
			case item.Resource.Kind == "Pod" && !strings.HasPrefix(strings.Join(words[1:], ""), "start"):
				folded[strings.Join(words[1:], " ")]++
			default:
				t.Errorf("the story does not say %q together", words)
			}
		}
	}
	for what, n := range folded {
		if counted := podsCounted(story, what); counted < n {
			t.Errorf("the story names or counts %d pods too few that are %q", n-counted, what)
		}
	}
	if checked == 0 {
		t.Error("nothing of weight was found to look for")
	}
}

// podsCounted returns how many pods are counted on lines about several that have a word.
func podsCounted(story, word string) (n int) {
	for line := range strings.Lines(story) {
		if m := manyPods.FindStringSubmatch(line); m != nil && strings.Contains(line, word) {
			count, _ := strconv.Atoi(m[1])
			n += count
		}
	}
	return n
}

var manyPods = regexp.MustCompile(`^\S+ rs/\S+ +(\d+) pods `)

// mentionedTogether reports whether one line has all the words.
func mentionedTogether(story string, words []string) bool {
	for line := range strings.Lines(story) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			return true
		}
	}
	return false
}

// weighty returns the words that one line of a story has to have for a change.
func weighty(item history.Item) (all [][]string) {
	o := item.Object()
	name := o.GetName()
	field := func(o map[string]any, path ...string) string {
		var v any = o
		for _, step := range path {
			m, _ := v.(map[string]any)
			v = m[step]
		}
		if v == nil {
			return ""
		}
		return fmt.Sprint(v)
	}
	switch kind := item.Resource.Kind; {
	case kind == "Event" && item.After != nil && field(o.Object, "type") == "Warning":
		message := field(o.Object, "message") + field(o.Object, "note")
		if strings.HasPrefix(message, "Error: ") || strings.HasPrefix(message, "Back-off") {
			break // the state of the container says it
		}
		cause := message[strings.LastIndex(message, ": ")+1:]
		all = append(all, []string{field(o.Object, "involvedObject", "name"), strings.TrimSpace(cause)})
	case kind != "Event" && item.After == nil && len(o.GetOwnerReferences()) == 0:
		all = append(all, []string{name, "deleted"})
	case kind == "Pod" && item.Before == nil:
		all = append(all, []string{name})
	case kind == "Pod" && item.After != nil:
		if was, is := restarts(item.Before.Object), restarts(o.Object); is > was {
			all = append(all, []string{name, fmt.Sprint("start ", is+1)})
		}
		if before, after := field(item.Before.Object, "status", "phase"), field(o.Object, "status",
			"phase"); before != after {
			all = append(all, []string{name, strings.ToLower(after)})
		}
	case (kind == "Deployment" || kind == "StatefulSet") && item.After != nil && item.Before != nil:
		if before, after := field(item.Before.Object, "spec", "replicas"), field(o.Object, "spec",
			"replicas"); before != after {
			all = append(all, []string{name, before, after})
		}
	}
	return all
}

// restarts returns how often the containers of a pod were started again.
func restarts(pod map[string]any) (n int64) {
	status, _ := pod["status"].(map[string]any)
	containers, _ := status["containerStatuses"].([]any)
	for _, c := range containers {
		m, _ := c.(map[string]any)
		count, _ := m["restartCount"].(int64)
		n += count
	}
	return n
}
