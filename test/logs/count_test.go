package logs

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"fairway/internal/accesslog"
	"fairway/internal/ctl/truth/logline"
)

// fewest is how many flags and details of docs/response-flags.md all tests together have to provoke.
const fewest = 100

// provoked are the rows of docs/response-flags.md that lines of real Envoys led to.
var provoked struct {
	sync.Mutex
	rows map[string]bool // "flag UH", "detail route_not_found"
}

func note(e logline.Explanation) {
	provoked.Lock()
	defer provoked.Unlock()
	if provoked.rows == nil {
		provoked.rows = map[string]bool{}
	}
	for _, f := range e.Line.Flags {
		if _, known := accesslog.Find(accesslog.Flag, f); known {
			provoked.rows[accesslog.Flag+" "+f] = true
		}
	}
	for _, c := range e.Causes {
		provoked.rows[c.Kind+" "+c.Name] = true
	}
}

// TestMain counts what all tests together provoked.
func TestMain(m *testing.M) {
	code := m.Run()
	var flags, details int
	var missing []string
	for row := range provoked.rows {
		switch kind, _, _ := strings.Cut(row, " "); kind {
		case accesslog.Flag:
			flags++
		case accesslog.Detail:
			details++
		}
	}
	for _, f := range accesslog.Names(accesslog.Flag) {
		if !provoked.rows[accesslog.Flag+" "+f] {
			missing = append(missing, f)
		}
	}
	fmt.Printf("provoked: %d flags, %d details, %d other rows of docs/response-flags.md; flags without a line: %v\n",
		flags, details, len(provoked.rows)-flags-details, missing)
	some := flag.Lookup("test.run").Value.String() + flag.Lookup("test.skip").Value.String()
	if some == "" && code == 0 && (flags+details < fewest || len(missing) > 0) {
		fmt.Printf("FAIL: want at least %d flags and details, and all flags\n", fewest)
		code = 1
	}
	os.Exit(code)
}
