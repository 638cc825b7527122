package top

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// help describes the keys.
const help = `  tab, shift+tab   count by something else; also 1 to 4
  left, right      sort by the column before or after
  r                reverse the order
  /                only names with a text; esc shows all
  p, space         pause the table; counting goes on
  up, down, j, k   move; also page up, home and so on
  enter            last changes; esc goes back
  f                all fights
  ?                this help
  ctrl-z           suspend
  q, ctrl-c        quit, and leave the figures here`

// key reacts to a key.
func (u *UI) key(name string) tea.Cmd {
	switch name {
	case "q", "ctrl+c":
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	case "p", "space":
		if u.paused = !u.paused; !u.paused {
			u.load()
		}
	case "?":
		u.open(helpPage)
	case "f":
		u.open(fightsPage)
	case "esc", "backspace":
		u.back()
	default:
		if !u.move(name) && u.page == tablePage {
			u.tableKey(name)
		}
	}
	return nil
}

// open shows a page, or the table if it is there already.
func (u *UI) open(p page) {
	if u.page == p {
		p = tablePage
	}
	u.page, u.first = p, 0
}

// back goes back to the table, and there to all rows.
func (u *UI) back() {
	if u.page == tablePage {
		u.filter = ""
	}
	u.open(tablePage)
}

// tableKey reacts to the keys of the table.
func (u *UI) tableKey(name string) {
	switch name {
	case "tab", "shift+tab":
		step := 1
		if name == "shift+tab" {
			step = len(Groups) - 1
		}
		u.show(Groups[(slices.Index(Groups, u.by)+step)%len(Groups)])
	case "1", "2", "3", "4":
		u.show(Groups[name[0]-'1'])
	case "left", "right":
		names := Columns()
		step := 1
		if name == "left" {
			step = len(names) - 1
		}
		u.sort, u.reverse = names[(slices.Index(names, u.sort)+step)%len(names)], false
	case "r":
		u.reverse = !u.reverse
	case "/":
		u.typing, u.filter = true, ""
	case "enter":
		if rows := u.rows(); len(rows) > 0 {
			u.place(rows)
			u.entered = u.selected
			u.changes = u.counter.Last(u.by, u.entered)
			u.open(changesPage)
		}
	}
}

// show shows another group.
func (u *UI) show(g Group) { u.by, u.selected, u.at, u.first = g, "", 0, 0 }

// typeFilter reacts to a key while the filter is typed.
func (u *UI) typeFilter(key tea.KeyPressMsg) tea.Cmd {
	switch name := key.String(); name {
	case "ctrl+c":
		return tea.Quit
	case "enter":
		u.typing = false
	case "esc":
		u.typing, u.filter = false, ""
	case "backspace":
		if runes := []rune(u.filter); len(runes) > 0 {
			u.filter = string(runes[:len(runes)-1])
		}
	default:
		u.filter += strings.ToLower(key.Text)
	}
	return nil
}

// move moves the bar, or another page's text, and reports whether the key does that.
func (u *UI) move(name string) bool {
	steps := map[string]int{"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -u.room(), "pgdown": u.room(), "home": -1 << 30, "end": 1 << 30}
	step, ok := steps[name]
	if !ok {
		return false
	}
	if u.page != tablePage {
		u.first = max(u.first+step, 0) // the view stops at the end
		return true
	}
	rows := u.rows()
	u.place(rows)
	if len(rows) > 0 {
		u.at = min(max(u.at+step, 0), len(rows)-1)
		u.selected = rows[u.at].Name
	}
	return true
}

// place puts the bar where the selected row has gone, or on the row that has its number now.
func (u *UI) place(rows []Row) {
	if i := slices.IndexFunc(rows, func(r Row) bool { return r.Name == u.selected }); i >= 0 && u.selected != "" && u.at > 0 {
		u.at = i
	}
	u.at = max(min(u.at, len(rows)-1), 0)
	if len(rows) > 0 {
		u.selected = rows[u.at].Name
	}
}
