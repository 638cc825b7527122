package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/spf13/cobra"
)

func TestExitCodes(t *testing.T) {
	tests := map[string]struct {
		err         error
		interrupted bool
		want        int
		text        string
	}{
		"well":               {nil, false, ExitOK, ""},
		"output closed":      {fmt.Errorf("tail: %w", ErrOutputClosed), false, ExitOK, ""},
		"output broken":      {&fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}, false, ExitOK, ""},
		"connection broken":  {&net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}, false, ExitFailure, "error: write tcp: broken pipe\n"},
		"interrupted":        {context.Canceled, true, ExitOK, ""},
		"canceled otherwise": {context.Canceled, false, ExitFailure, "error: context canceled\n"},
		"failure":            {errors.New("no \x1b[31mway"), false, ExitFailure, "error: no \\x1b[31mway\n"},
		"several":            {errors.Join(errors.New("one"), errors.New("two")), false, ExitFailure, "error: one\nerror: two\n"},
		"usage":              {Usage(errors.New("what?")), false, ExitUsage, "error: what?\nsee tidings --help\n"},
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range tests {
		ctx := t.Context()
		if test.interrupted {
			ctx = canceled
		}
		var stderr bytes.Buffer
		command := &cobra.Command{Use: "tidings"}
		command.SetErr(&stderr)
		if got := report(ctx, command, test.err); got != test.want || stderr.String() != test.text {
			t.Errorf("%s: code %d, text %q", name, got, &stderr)
		}
	}
	if Usage(nil) != nil {
		t.Error("Usage(nil) is an error")
	}
}

func TestMainTellsUsageFromFailure(t *testing.T) {
	for args, want := range map[string]int{"": ExitFailure, "--nonsense": ExitUsage, "extra": ExitUsage, "--help": ExitOK} {
		root := &cobra.Command{Use: "tidings", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return errors.New("failed") }}
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		if got := Main(root, strings.Fields(args)); got != want {
			t.Errorf("%q: %d, want %d", args, got, want)
		}
	}
}

func TestMainEndsWellWhenTerminated(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		root := &cobra.Command{Use: "tidings", RunE: func(cmd *cobra.Command, _ []string) error {
			if err := syscall.Kill(os.Getpid(), sig); err != nil {
				return err
			}
			<-cmd.Context().Done()
			return fmt.Errorf("waiting: %w", context.Cause(cmd.Context()))
		}}
		if code := Main(root, nil); code != ExitOK {
			t.Errorf("%v: exit code %d", sig, code)
		}
	}
}

func TestScreenKeepsTheOrder(t *testing.T) {
	var both bytes.Buffer
	s := NewScreen(&both, &both)
	var want strings.Builder
	for i := range 1000 {
		text := fmt.Appendf(nil, "line %d\n", i)
		want.Write(text)
		write := s.Out
		if i%7 == 0 {
			write = s.Err
		}
		if err := write(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	s.Close(time.Minute)
	if both.String() != want.String() {
		t.Error("lines are missing or out of order")
	}
	if err := s.Out(t.Context(), nil); !errors.Is(err, ErrOutputClosed) {
		t.Errorf("a closed screen says %v", err)
	}
}

// TestScreenProgress: the progress line is replaced in place, and stays below the lines.
func TestScreenProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var both bytes.Buffer
		s := NewScreen(&both, &both)
		const clear = "\r\x1b[J"
		wrote := func(want string) {
			t.Helper()
			time.Sleep(frame)
			synctest.Wait()
			if got := both.String(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			both.Reset()
		}
		s.Progress("not a terminal")
		wrote("")
		s.live = true
		for _, text := range []string{"one", "two", "two"} {
			s.Progress(text)
			synctest.Wait()
		}
		wrote(clear + "one\r" + clear + "two\r")
		for range 3 {
			if err := s.Out(t.Context(), []byte("out\n")); err != nil {
				t.Fatal(err)
			}
		}
		wrote(clear + "out\nout\nout\n" + clear + "two\r")
		if err := s.Err(t.Context(), []byte("done\n")); err != nil {
			t.Fatal(err)
		}
		wrote(clear + "done\n" + clear + "two\r")
		s.Progress("three\x1b" + strings.Repeat("é", 100))
		wrote(clear + "three\\x1b" + strings.Repeat("é", 70) + "\r")
		s.Close(time.Minute)
		wrote(clear)
	})
}

// TestKeys: what a terminal sends is split into keys, whatever arrives together.
func TestKeys(t *testing.T) {
	for input, want := range map[string]string{
		"a/é→": "a / é →", "\r": "enter", "\x1b": "esc", "\x1b[A\x1bOPq": "q", "\x1b[1;5Cx": "x", "\x1bx": "",
		"\x7f\x15": "backspace ctrl+u",
		"\x01\t":   "", "\x1b\x1b": "esc esc",
	} {
		if keys, rest := keysOf([]byte(input)); strings.Join(keys, " ") != want || len(rest) > 0 {
			t.Errorf("%q is %q, and %q is left", input, keys, rest)
		}
	}
	if keys, rest := keysOf([]byte("a\xe2\x86")); len(keys) != 1 || string(rest) != "\xe2\x86" {
		t.Errorf("an incomplete character: %q, and %q is left", keys, rest)
	}
	if _, err := OpenKeyboard(t.Context(), strings.NewReader("q")); !errors.Is(err, ErrNoKeyboard) {
		t.Errorf("a pipe: %v", err)
	}
}

func TestScreenSaysThatTheOutputIsClosed(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	var stderr bytes.Buffer
	s := NewScreen(writer, &stderr)
	if s.ReaderGone() {
		t.Error("the reader is still there")
	}
	reader.Close()
	if !s.ReaderGone() {
		t.Error("the reader has gone")
	}
	if err := s.Out(t.Context(), []byte("nobody hears this\n")); err != nil {
		t.Fatal(err)
	}
	<-s.Failed()
	if err := s.Out(t.Context(), []byte("nor this\n")); !errors.Is(err, ErrOutputClosed) {
		t.Errorf("got %v", err)
	}
	if err := s.Err(t.Context(), []byte("but this\n")); err != nil {
		t.Error(err)
	}
	s.Close(time.Minute)
	if stderr.String() != "but this\n" {
		t.Errorf("stderr %q", &stderr)
	}
}

// TestScreenSaysWhyItFailed: a full disk is a failure, which is reported once.
func TestScreenSaysWhyItFailed(t *testing.T) {
	for name, given := range map[string]error{"well so far": nil, "knows": fmt.Errorf("cannot write the output: %w", errFull)} {
		s := NewScreen(full{}, io.Discard)
		if err := s.Out(t.Context(), []byte("x\n")); err != nil {
			t.Fatal(err)
		}
		if err := s.End(given, time.Minute); err == nil || err.Error() != "cannot write the output: no space left" || !errors.Is(err, errFull) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := NewScreen(full{}, io.Discard)
	if err := s.End(nil, time.Minute); err != nil {
		t.Errorf("nothing was written: %v", err)
	}
}

var errFull = errors.New("no space left")

// full is a stream to a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// stalled is a stream whose reader does nothing until it is released.
type stalled struct{ release chan struct{} }

func (w stalled) Write(p []byte) (int, error) {
	<-w.release
	return len(p), nil
}

func TestStalledReaderCannotHoldTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := stalled{make(chan struct{})}
		s := NewScreen(reader, io.Discard)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, io.ErrNoProgress)
		defer cancel()
		text := append(bytes.Repeat([]byte("x"), flushAt), '\n') // shorter ones may be collected while there are more
		var err error
		for range 3 * queued {
			if err = s.Out(ctx, text); err != nil {
				break
			}
		}
		if !errors.Is(err, io.ErrNoProgress) {
			t.Errorf("waiting ended with %v", err)
		}
		began := time.Now()
		s.Close(time.Second)
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("Close waited %v", waited)
		}
		close(reader.release)
	})
}

func TestPrintable(t *testing.T) {
	for s, want := range map[string]string{"plain é\n": `plain é\n`, "\x1b]0;x\a": `\x1b]0;x\a`, "a\rb\u202ec\u009b": `a\rb\u202ec\u009b`, "\xff": "\ufffd"} {
		if got := Printable(s); got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}

// TestPrintableJSON: the text means the same, but has nothing left that a terminal would interpret.
func TestPrintableJSON(t *testing.T) {
	for _, s := range []string{"plain é\n", "\u009b31m", "\u202ereversed\u2066", "\x7f\x1b[2J", "\U000e0001tag", "🙂 e\u0301", "\u200b\u00ad\ufeff"} {
		text, err := json.Marshal(map[string]string{s: s})
		if err != nil {
			t.Fatal(err)
		}
		clean := PrintableJSON(text)
		var back map[string]string
		if err := json.Unmarshal(clean, &back); err != nil || back[s] != s {
			t.Errorf("%q became %q, %v", s, clean, err)
		}
		if strings.ContainsFunc(string(clean), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q is left in %q", s, clean)
		}
	}
}

func TestLogger(t *testing.T) {
	var quiet, loud bytes.Buffer
	NewLogger(&quiet, slog.LevelWarn).Info("detail")
	NewLogger(&loud, slog.LevelDebug).Info("detail")
	if quiet.Len() != 0 || loud.String() != "debug: detail\n" && loud.String() != "info: detail\n" {
		t.Errorf("quiet %q, loud %q", &quiet, &loud)
	}
	quiet.Reset()
	NewLogger(&quiet, slog.LevelWarn).With("group", "x").WithGroup("answer").Warn("it said \x1b[2J", "error", errors.New("no\nway"))
	if want := `warning: it said \x1b[2J (group: x, answer.error: no\nway)` + "\n"; quiet.String() != want {
		t.Errorf("got %q, want %q", &quiet, want)
	}
}

func TestColorsNeedATerminal(t *testing.T) {
	if Colors(new(bytes.Buffer)) || IsTerminal(new(bytes.Buffer)) {
		t.Error("a buffer is no terminal")
	}
}
