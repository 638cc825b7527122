package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// printer prints what happens, from any goroutine.
type printer struct {
	mu    sync.Mutex
	w     io.Writer
	steps int
}

// step prints the heading of the next numbered step.
func (n *printer) step(title string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.steps++
	fmt.Fprintf(n.w, "\n%d. %s\n", n.steps, title)
}

// say prints a line of explanation.
func (n *printer) say(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintf(n.w, format+"\n", args...)
}

// quote prints the output of a program, each line after the program's name.
func (n *printer) quote(who string, lines []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintf(n.w, "%s%s\n", quoteMark(who), strings.Join(lines, "\n"+quoteMark(who)))
}

func quoteMark(who string) string { return fmt.Sprintf("   %-4s │ ", who) }
