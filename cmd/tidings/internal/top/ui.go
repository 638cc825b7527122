package top

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Start is what the screen shows first.
type Start struct {
	Title string // what is followed
	By    Group
	Sort  string // a column
}

// UI shows a counter on the whole screen of a terminal, refreshed every second, and reacts to keys.
type UI struct {
	counter *Counter
	title   string
	notes   notes

	// The fields below belong to the program's loop.
	report        Report // what is shown
	by            Group
	sort          string
	reverse       bool
	filter        string // rows whose names contain it, in lower case
	typing        bool   // the keys are the filter's
	paused        bool
	page          page
	entered       string   // with changesPage, the row
	changes       []string // with changesPage, its last changes
	selected      string   // the row with the bar
	at            int      // its number
	first         int      // the first line that is shown
	width, height int
}

// page is what is shown.
type page int

const (
	tablePage page = iota
	changesPage
	fightsPage
	helpPage
)

// NewUI returns a screen for the counter, whose changes have to be kept.
func NewUI(counter *Counter, start Start) *UI {
	return &UI{counter: counter, title: start.Title, by: start.By, sort: start.Sort, report: counter.Report(time.Now(), maxRows)}
}

// Run shows the screen until a key ends it or ctx ends, and restores the terminal. It reads keys from stdin; nil has none.
func (u *UI) Run(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	if file, ok := stdin.(*os.File); ok && runtime.GOOS != "windows" {
		stdin = nameless{file}
	}
	program := tea.NewProgram(u, tea.WithInput(stdin), tea.WithOutput(stdout), tea.WithoutSignalHandler(), tea.WithFPS(20))
	stop := context.AfterFunc(ctx, program.Quit)
	defer stop()
	_, err := program.Run()
	if errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}

// nameless is a terminal without a name, which the library therefore reads without epoll or kqueue. Through those its
// release 2.0.2 closes, at the end, a pipe that its reader still waits for; a later release would raise
// golang.org/x/sys for all who use this module. The price is a read that goes on until the process ends.
type nameless struct{ file *os.File }

func (n nameless) Read(p []byte) (int, error)  { return n.file.Read(p) }
func (n nameless) Write(p []byte) (int, error) { return n.file.Write(p) }
func (n nameless) Close() error                { return nil } // it is the process's
func (n nameless) Fd() uintptr                 { return n.file.Fd() }

// Notes returns a writer of messages for people, of which the last line is shown.
func (u *UI) Notes() io.Writer { return &u.notes }

// notes keeps the last line that was written.
type notes struct {
	mu   sync.Mutex
	last string
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(p)), "\n")
	n.last = cmp.Or(lines[len(lines)-1], n.last)
	return len(p), nil
}

func (n *notes) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last
}

// refresh is the message that it is time for new figures.
type refresh struct{}

func (u *UI) tick() tea.Cmd {
	return tea.Tick(time.Second, func(time.Time) tea.Msg { return refresh{} })
}

// Init implements tea.Model.
func (u *UI) Init() tea.Cmd { return u.tick() }

// Update implements tea.Model.
func (u *UI) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case refresh:
		if !u.paused {
			u.load()
		}
		return u, u.tick()
	case tea.WindowSizeMsg:
		u.width, u.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		if u.typing {
			return u, u.typeFilter(msg)
		}
		return u, u.key(msg.String())
	case tea.PasteMsg:
		if u.typing {
			u.filter += strings.ToLower(msg.Content)
		}
	}
	return u, nil
}

// load gets new figures.
func (u *UI) load() {
	u.report = u.counter.Report(time.Now(), maxRows)
	if u.page == changesPage {
		u.changes = u.counter.Last(u.by, u.entered)
	}
}

// rows returns the rows that pass the filter, sorted.
func (u *UI) rows() []Row {
	rows := slices.Clone(u.report.Groups[u.by])
	if u.filter != "" {
		rows = slices.DeleteFunc(rows, func(r Row) bool { return !strings.Contains(strings.ToLower(r.Name), u.filter) })
	}
	sortRows(rows, u.sort, u.reverse)
	return rows
}
