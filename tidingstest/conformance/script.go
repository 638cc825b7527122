package conformance

import (
	"fmt"
	"strconv"
	"strings"
)

// script is one file of requests with their expected responses.
type script struct {
	name  string
	steps []*step
}

// step is one request, and what a client should observe.
type step struct {
	title   string
	differs string // why the test server deliberately responds differently; empty if it does not

	headers []string // "Name: value"
	show    []string // paths of the fields to compare; empty compares the whole response
	managed bool     // compare managed fields too
	verb    string   // an HTTP method, START or EVENTS
	target  string   // a path with a query; for START "name path", for EVENTS "name count"
	body    string

	want        string // of a real server
	alternative string // of the test server, where that differs
	observed    string // in the last run
}

// A script consists of steps like this one. The lines that begin with @ are optional.
//
//	== title
//	@header Content-Type: application/merge-patch+json
//	@show metadata.name status
//	@managed
//	@differs why the test server responds differently
//	PATCH /api/v1/namespaces/$ns/configmaps/a
//	{"data":{"a":"1"}}
//	>> 200
//	{…}
//	~> 200
//	{…}
//
// The response after >> is a real server's; the one after ~> is the test server's where it deliberately differs.
func parseScript(name, text string) (*script, error) {
	s := &script{name: name}
	var part *string
	for i, line := range strings.Split(text, "\n") {
		title, begins := strings.CutPrefix(line, "== ")
		switch {
		case begins:
			s.steps = append(s.steps, &step{title: title})
			part = nil
		case len(s.steps) == 0:
			if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
				return nil, fmt.Errorf("%s:%d: no step has begun", name, i+1)
			}
		default:
			if err := s.steps[len(s.steps)-1].addLine(line, &part); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
			}
		}
	}
	for _, st := range s.steps {
		st.body, st.want, st.alternative = strings.TrimSpace(st.body), strings.TrimSpace(st.want), strings.TrimSpace(st.alternative)
	}
	return s, nil
}

func (st *step) addLine(line string, part **string) error {
	switch {
	case strings.HasPrefix(line, ">> "):
		*part = &st.want
	case strings.HasPrefix(line, "~> "):
		*part = &st.alternative
	case *part != nil:
	case strings.HasPrefix(line, "@"):
		return st.addOption(line)
	case st.verb == "" && line != "":
		st.verb, st.target, _ = strings.Cut(line, " ")
		*part = &st.body
		return nil
	}
	if *part != nil {
		text := strings.TrimPrefix(strings.TrimPrefix(line, ">> "), "~> ")
		**part += text + "\n"
	}
	return nil
}

func (st *step) addOption(line string) error {
	option, value, _ := strings.Cut(line[1:], " ")
	switch option {
	case "header":
		st.headers = append(st.headers, value)
	case "show":
		st.show = strings.Fields(value)
	case "managed":
		st.managed = true
	case "differs":
		st.differs = value
	default:
		return fmt.Errorf("unknown option @%s", option)
	}
	return nil
}

// text formats the script with its current expectations.
func (s *script) text() string {
	var b strings.Builder
	for _, st := range s.steps {
		fmt.Fprintf(&b, "== %s\n", st.title)
		for _, h := range st.headers {
			fmt.Fprintf(&b, "@header %s\n", h)
		}
		if len(st.show) > 0 {
			fmt.Fprintf(&b, "@show %s\n", strings.Join(st.show, " "))
		}
		if st.managed {
			b.WriteString("@managed\n")
		}
		if st.differs != "" {
			fmt.Fprintf(&b, "@differs %s\n", st.differs)
		}
		fmt.Fprintf(&b, "%s %s\n", st.verb, st.target)
		if st.body != "" {
			fmt.Fprintln(&b, st.body)
		}
		fmt.Fprintf(&b, ">> %s\n", st.want)
		if st.alternative != "" {
			fmt.Fprintf(&b, "~> %s\n", st.alternative)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// events splits the target of EVENTS.
func (st *step) events() (name string, count int, err error) {
	name, number, _ := strings.Cut(st.target, " ")
	count, err = strconv.Atoi(number)
	return name, count, err
}
