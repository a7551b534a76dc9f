package history

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairway/internal/admin"
	"fairway/internal/config"
)

// read reads a file, and returns what was logged.
func read(t *testing.T, text string) (Past, string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, keptFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	return Read(dir, slog.New(slog.NewTextHandler(&log, nil))), log.String()
}

const head = `{"version":1,"last":20}` + "\n"

func line(number int) string {
	return fmt.Sprintf(`{"turn":%d,"at":"2030-01-02T03:04:05Z","ms":1.5,"keys":[{"kind":"VirtualService","namespace":"shop","name":"a"}]}`+"\n",
		number)
}

// TestKeptIsChecked: the file is read as if a stranger had written it.
func TestKeptIsChecked(t *testing.T) {
	good, log := read(t, head+line(3)+line(9))
	if good.Last != 20 || len(good.turns) != 2 || log != "" {
		t.Fatalf("%+v %s", good, log)
	}
	l := New(nil, nil, nil, nil, good)
	of := func(k config.Key) bool {
		return k == config.Key{Kind: config.VirtualService, Namespace: "shop", Name: "a"}
	}
	if found := l.Turns(admin.TurnFilter{Object: of, Most: 10}); len(found) != 2 || found[1].Number != 9 || found[1].Millis != 1.5 {
		t.Errorf("%+v", found)
	}
	if found := l.Turns(admin.TurnFilter{Stream: 1, Most: 10}); len(found) != 0 {
		t.Errorf("a stream of this process was sent %+v", found)
	}
	var many strings.Builder
	for i := range mostTurns + 1 {
		many.WriteString(line(i + 1))
	}
	objects := strings.Repeat(`{"kind":"Gateway","name":"a","change":"added"},`, mostObjects+1)
	for name, c := range map[string]struct{ text, says string }{
		"empty":           {"", "line 1"},
		"no JSON":         {"hello", "line 1"},
		"another version": {`{"version":2,"last":1}`, "want version 1"},
		"large numbers":   {`{"version":1,"last":18446744073709551615}`, "turns up to"},
		"falling":         {head + line(9) + line(3), "turn 3 after turn 9"},
		"twice":           {head + line(9) + line(9), "turn 9 after turn 9"},
		"beyond the last": {head + line(21), "turn 21"},
		"cut":             {head + line(3) + line(9)[:30], "line 3"},
		"no UTF-8":        {head + strings.Replace(line(3), "shop", "\xff", 1), "UTF-8"},
		"too many turns":  {strings.Replace(head, "20", "2000", 1) + many.String(), "turns at most"},
		"many objects":    {head + `{"turn":3,"objects":[` + strings.TrimSuffix(objects, ",") + "]}", "more than a turn has"},
		"too large":       {head + strings.Repeat(" ", mostBytes+mostLine), "lost"},
	} {
		if got, log := read(t, c.text); got.Last != 0 || len(got.turns) != 0 || !strings.Contains(log, c.says) {
			t.Errorf("%s: turns are counted from %d, there are %d; the log says %s", name, got.Last, len(got.turns), log)
		}
	}
	if got := Read(t.TempDir(), slog.New(slog.DiscardHandler)); got.Last != 0 || got.path == "" {
		t.Errorf("an empty folder: %+v", got)
	}
}

// TestKeptIsBounded: the oldest turns are left out if all need too many bytes.
func TestKeptIsBounded(t *testing.T) {
	var lines [][]byte
	for i := range 100 {
		lines = append(lines, bytes.Repeat([]byte{byte('a' + i%26)}, mostBytes/50))
	}
	text := join([]byte("head"), append(lines, nil)) // a line that is left out
	if len(text) > mostBytes || bytes.Count(text, []byte("\n")) != 50 || !bytes.HasSuffix(text, append(lines[99], '\n')) {
		t.Errorf("%d bytes, %d lines", len(text), bytes.Count(text, []byte("\n")))
	}
}

func FuzzKept(f *testing.F) {
	f.Add([]byte(head + line(3) + line(9)))
	f.Fuzz(func(t *testing.T, text []byte) {
		p := Past{}
		if p.decode(text) == nil && (p.Last > mostTurn || len(p.turns) > mostTurns) {
			t.Errorf("%d turns up to %d", len(p.turns), p.Last)
		}
		New(nil, nil, nil, nil, p).Turns(admin.TurnFilter{Most: mostTurns})
	})
}
