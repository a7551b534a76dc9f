package resident

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// After each of these calls hardly any page of the program's file is resident, and the program goes on.
func TestGiveBack(t *testing.T)    { dropsFile(t, GiveBack) }
func TestDropProgram(t *testing.T) { dropsFile(t, DropProgram) }

func dropsFile(t *testing.T, drop func() error) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	before := fileKB(t)
	if err := drop(); err != nil {
		t.Fatal(err)
	}
	after := fileKB(t)
	t.Logf("pages of files: %d kB before, %d kB after", before, after)
	if after >= before {
		t.Errorf("pages of files: %d kB before, %d kB after", before, after)
	}
}

// fileKB returns how many KB of files are resident.
func fileKB(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "RssFile:"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no RssFile in /proc/self/status")
	return 0
}
