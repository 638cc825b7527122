package top

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
)

// The styles, which need no colors.
const (
	bold    = "\x1b[1m"
	inverse = "\x1b[7m"
	reset   = "\x1b[0m"
)

// headLines and footLines are the lines above and below the page's text.
const (
	headLines = 3
	footLines = 2
)

// shownFights is the number of fights below a table.
const shownFights = 3

// room is the number of lines for a page's text.
func (u *UI) room() int {
	room := u.height - headLines - footLines
	if n := min(len(u.report.Fights), shownFights); u.page == tablePage && n > 0 {
		room -= n + 2
	}
	return max(room, 1)
}

// View implements tea.Model.
func (u *UI) View() tea.View {
	if u.width == 0 {
		return tea.View{AltScreen: true}
	}
	lines := append([]string{bold + u.headline() + reset, u.state()}, u.text()...)
	for len(lines) < u.height-footLines {
		lines = append(lines, "")
	}
	lines = append(lines[:max(min(len(lines), u.height-footLines), 0)], u.notes.text(), u.foot())
	for i, line := range lines {
		lines[i] = cli.Fit(line, u.width)
	}
	return tea.View{Content: strings.Join(lines, "\n"), AltScreen: true}
}

func (u *UI) headline() string {
	r := u.report
	return fmt.Sprintf("%s: %d writes in %.0fs, %d useless", cli.Printable(u.title), r.Writes, r.Seconds, r.Useless)
}

// state says which rows are shown, and whether they stand still.
func (u *UI) state() string {
	var b strings.Builder
	if u.paused {
		b.WriteString(inverse + "PAUSED" + reset + " ")
	}
	for _, g := range Groups {
		if g == u.by {
			b.WriteString(inverse + string(g) + reset + " ")
		} else {
			b.WriteString(string(g) + " ")
		}
	}
	if u.filter != "" && !u.typing {
		fmt.Fprintf(&b, " only names with %q", u.filter)
	}
	return b.String()
}

// text returns the head and the text of the page.
func (u *UI) text() []string {
	switch u.page {
	case changesPage:
		title := fmt.Sprintf("%d last changes of %s, the newest first", len(u.changes), cli.Printable(u.entered))
		return u.scrolled(title, wrapped(strings.Join(u.changes, ""), u.width))
	case fightsPage:
		var lines []string
		for _, f := range u.report.Fights {
			lines = append(lines, wrapped(f.text(), u.width)...)
		}
		return u.scrolled(fightsTitle, lines)
	case helpPage:
		return u.scrolled("Keys", strings.Split(help, "\n"))
	default:
		return u.table()
	}
}

// wrapped breaks text into lines.
func wrapped(text string, width int) []string {
	return strings.Split(cli.Wrap(strings.TrimSuffix(text, "\n"), width, 0), "\n")
}

// scrolled returns a title and the lines that there is room for.
func (u *UI) scrolled(title string, lines []string) []string {
	u.first = max(min(u.first, len(lines)-u.room()), 0)
	return append([]string{bold + title + reset}, lines[u.first:min(u.first+u.room(), len(lines))]...)
}

// table returns the table and the fights below it.
func (u *UI) table() []string {
	rows := u.rows()
	u.place(rows)
	u.first = max(min(u.first, u.at, len(rows)-u.room()), u.at-u.room()+1, 0)
	lines := []string{bold + u.titles() + reset}
	for i, row := range rows[u.first:min(u.first+u.room(), len(rows))] {
		line := cli.Fit(row.text(), u.width)
		if u.first+i == u.at {
			line = inverse + line + reset
		}
		lines = append(lines, line)
	}
	if len(u.report.Fights) == 0 {
		return lines
	}
	for len(lines) <= u.room() {
		lines = append(lines, "")
	}
	lines = append(lines, "", bold+fmt.Sprintf("%d fights: fields that two managers set back and forth", len(u.report.Fights))+reset)
	for _, f := range u.report.Fights[:min(len(u.report.Fights), shownFights)] {
		lines = append(lines, "  "+f.text())
	}
	return lines
}

// titles returns the names of the columns, with an arrow at the one that is sorted by.
func (u *UI) titles() string {
	arrow := "↓"
	if u.reverse {
		arrow = "↑"
	}
	var b strings.Builder
	for _, c := range columns {
		title := c.title
		if c.name == u.sort {
			title += arrow
		}
		fmt.Fprintf(&b, "%*s ", c.width, title)
	}
	b.WriteString(" BY " + strings.ToUpper(string(u.by)))
	if u.sort == byName {
		b.WriteString(arrow)
	}
	return b.String()
}

// foot returns the filter that is typed, or the most important keys.
func (u *UI) foot() string {
	switch {
	case u.typing:
		return "names with: " + cli.Printable(u.filter) + "_"
	case u.page != tablePage:
		return "esc back  up/down scroll  p pause  q quit"
	default:
		return "tab by  left/right sort  r reverse  / filter  enter changes  p pause  ? help"
	}
}
