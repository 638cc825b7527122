package simulation

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// reopen stops and reopens the views that are saved: they begin with what was saved when they were
// stopped or, as after a crash, some time before.
func (r *run) reopen(ctx context.Context) {
	if r.dir == "" {
		return
	}
	files, err := r.readFiles()
	crash := r.random.IntN(2) == 0
	if crash {
		for range 1 + r.random.IntN(40) {
			r.step(ctx)
		}
	}
	r.unmonitor()
	for _, v := range r.views {
		for _, p := range v.status().Parts {
			if p.File.Loaded > 0 {
				r.countFault("collection that began with a file")
			}
		}
		if err := v.stop(context.Background()); err != nil {
			r.diverge("cannot stop %v: %v", v.scope(), err)
		}
		for _, h := range v.replays() {
			r.checkReplay(h)
		}
	}
	if crash && err == nil {
		err = r.writeFiles(files)
	}
	for range r.random.IntN(40) {
		r.schedule(r.world.write())
		r.report.Writes++
	}
	if err := r.open(ctx); err != nil {
		r.diverge("cannot start again: %v", err)
	}
	if err != nil {
		r.diverge("the saved files: %v", err)
	}
	r.countFault(fmt.Sprintf("informers stopped and started from files%s", map[bool]string{true: " of before"}[crash]))
	r.monitor(ctx)
}

// readFiles returns the currently saved files, which come and go by being renamed.
func (r *run) readFiles() (map[string][]byte, error) {
	names, err := filepath.Glob(filepath.Join(r.dir, "*.tidings"))
	files := map[string][]byte{}
	for _, name := range names {
		if data, err := os.ReadFile(name); err == nil { // otherwise it was deleted in the meantime
			files[name] = data
		}
	}
	return files, err
}

func (r *run) writeFiles(files map[string][]byte) error {
	for name, data := range files {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
