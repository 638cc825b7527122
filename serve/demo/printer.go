package main

import (
	"fmt"
	"io"
)

// printer prints what happens.
type printer struct {
	w     io.Writer
	steps int
}

// step prints the heading of the next numbered step.
func (p *printer) step(title string) {
	p.steps++
	fmt.Fprintf(p.w, "\n%d. %s\n", p.steps, title)
}

// say prints a line of explanation.
func (p *printer) say(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }
