// Walker runs [walk.Walk]. It must be built with -cover -covermode=atomic; test/way builds it and reads what it writes. Package walk is not
// instrumented itself: it looks at the counters until they no longer change.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"fairway/test/way/walk"
)

// limit bounds a run. It takes seconds on a quiet machine.
const limit = 5 * time.Minute

func main() {
	out := flag.String("out", "", "folder to write the counters to: a folder for each change, and in it one for each round")
	rounds := flag.Int("rounds", 5, "how many times each change is made")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := walk.Walk(ctx, *out, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "walker:", err)
		os.Exit(1)
	}
}
