package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestHelp: the help of every command fits 80 columns, has an example, and every command has a page in docs.
func TestHelp(t *testing.T) {
	for _, name := range commandNames(t) {
		text := string(output(t, name, "--help"))
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
		if !strings.Contains(text, "\nExamples:\n") ||
			!strings.Contains(text, "\n  tidings "+name) && name != "completion" {
			t.Errorf("%s has no example", name)
		}
		switch name {
		case "version", "completion", "help":
			continue
		}
		page, err := os.ReadFile("../../docs/" + name + ".md")
		if err != nil {
			t.Errorf("%s has no page: %v", name, err)
		}
		if !strings.Contains(string(page), "\n$ tidings "+name+" ") &&
			!strings.Contains(string(page), " "+name+" ./...\n") {
			t.Errorf("docs/%s.md has no output", name)
		}
	}
}

// commandNames returns the names of all commands, and checks that those of cobra are among them.
func commandNames(t *testing.T) (names []string) {
	names = []string{"help", "completion"}
	list := string(output(t, "--help"))
	for _, name := range names {
		if !strings.Contains(list, "\n  "+name+" ") {
			t.Errorf("there is no command %s", name)
		}
	}
	for _, command := range newRoot().Commands() {
		names = append(names, command.Name())
	}
	return names
}

// output runs the program.
func output(t *testing.T, args ...string) []byte {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command("tidings", args...)
	cmd.Env = append(os.Environ(), "TZ=UTC", "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, &stderr)
	}
	return text
}

// TestCompletionOfFlags: flags with a choice of values complete them.
func TestCompletionOfFlags(t *testing.T) {
	choice := []string{"output", "changes", "op", "by", "sort", "speed", "at", "with", "namespace", "context",
		"cluster", "user", "controllers", "namespaces"}
	for _, command := range newRoot().Commands() {
		for _, name := range choice {
			flag := command.Flags().Lookup(name)
			// of a file
			if flag == nil || command.Name() == "replay" && name == "namespace" ||
				command.Name() == "diff" && name == "namespace" {
				continue
			}
			if _, found := command.GetFlagCompletionFunc(name); !found {
				t.Errorf("%s --%s is not completed", command.Name(), name)
			}
		}
	}
}
