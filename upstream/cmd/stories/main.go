// Stories records the scenes whose stories the tests of the command line compare.
//
//	cd upstream && go run ./cmd/stories -o ../cmd/tidings/testdata/stories [SCENE...]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/tidings/tidings/upstream/internal/stories"
)

func main() {
	folder := flag.String("o", "", "the folder for the recordings")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *folder); err != nil {
		fmt.Fprintln(os.Stderr, "stories:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return stories.Record(ctx, folder, flag.Args(), os.Stdout)
}
