package registry_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fairway/internal/golden"
)

var partition = flag.Duration("partition", 0, "for how long the suite cuts registries off, beside until that is noticed: 60s")

// behaviour is a behaviour that every registry has to show: a row of the suite's table.
type behaviour struct {
	name string
	does string   // the action, and the expected result
	need []string // what of the registry's it is about; "own": a server that nobody else uses; "alone": nothing else runs meanwhile
	run  func(c *bed)
}

func (b behaviour) needs(what string) bool {
	for _, n := range b.need {
		if n == what {
			return true
		}
	}
	return false
}

// bed has what one behaviour needs of one registry.
type bed struct {
	*testing.T
	registry
	server server
	prefix string // of the behaviour's services
}

// in is an instance of a service of the behaviour's own.
func (c *bed) in(service string, n int) instance {
	return instance{service: c.prefix + service, id: fmt.Sprintf("i%d", n), address: fmt.Sprintf("10.1.%d.%d", n/250, n%250+1), port: 8080}
}

// called returns the name of the registry's source for an entry name.
func (c *bed) called(name string) string { return c.source + "/" + name }

// at is the entry of the server, at its own address.
func (c *bed) at(more ...any) entry {
	return c.entry("suite", c.server.options(c.server.address()).with(more...))
}

// open reads the server, and returns once it has been.
func (c *bed) open(more ...any) *world {
	c.Helper()
	w := open(c.T, c.at(more...))
	w.synced(c.T, c.called("suite"))
	return w
}

// put registers instances that the server has to accept.
func (c *bed) put(all ...instance) {
	c.Helper()
	if err := c.server.register(c.T, all...); err != nil {
		c.Fatal(err)
	}
}

func (c *bed) drop(in instance) {
	c.Helper()
	c.server.deregister(c.T, in)
}

// results are what the suite found, by registry and behaviour.
type results struct {
	mu sync.Mutex
	by map[string]map[string]string
}

func (r *results) note(registry, behaviour, result string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by[registry] == nil {
		r.by[registry] = map[string]string{}
	}
	r.by[registry][behaviour] = result
}

// lack is why a registry cannot show a behaviour; empty: it can.
func (r registry) lack(b behaviour) string {
	for _, n := range b.need {
		if why := r.lacks[n]; why != "" {
			return why
		}
	}
	return ""
}

// TestConformance runs every behaviour at every registry.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("real servers take minutes")
	}
	found := &results{by: map[string]map[string]string{}}
	all := behaviours()
	begun := time.Now()
	show := func(t *testing.T, r registry, b behaviour, row int, server server) {
		result := "failed"
		defer func() {
			if t.Skipped() {
				result = "skipped"
			}
			found.note(r.name, b.name, result)
		}()
		c := &bed{T: t, registry: r, server: server, prefix: fmt.Sprintf("b%d-", row)}
		if !b.needs("stand-in") && (b.needs("own") || r.lacks["server"] != "") {
			c.server = r.start(t)
		}
		b.run(c)
		if !t.Failed() {
			result = "passed"
		}
	}
	t.Run("at", func(t *testing.T) {
		for _, r := range registriesOfSuite {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				var shared server
				for i, b := range all {
					if why := r.lack(b); why != "" {
						found.note(r.name, b.name, "no: "+why)
						continue
					}
					if b.needs("alone") {
						continue
					}
					if shared == nil && !b.needs("own") && !b.needs("stand-in") && r.lacks["server"] == "" {
						shared = r.start(t)
					}
					t.Run(b.name, func(t *testing.T) {
						t.Parallel()
						show(t, r, b, i, shared)
					})
				}
			})
		}
	})
	t.Run("alone", func(t *testing.T) { // behaviours that are large, or that measure the whole process
		for i, b := range all {
			for _, r := range registriesOfSuite {
				if b.needs("alone") && r.lack(b) == "" {
					t.Run(r.name+"/"+b.name, func(t *testing.T) { show(t, r, b, i, nil) })
				}
			}
		}
	})
	t.Logf("it took %s", time.Since(begun).Round(time.Second))
	table := found.table(all)
	t.Log("\n" + table)
	holdDocs(t, found, all, table)
}

// table is what the suite found, for the docs: registries that were skipped are left out.
func (r *results) table(all []behaviour) string {
	var b strings.Builder
	b.WriteString("| behaviour |")
	line := "|---|"
	var notes []string
	number := map[string]int{}
	for _, of := range registriesOfSuite {
		b.WriteString(" " + of.name + " |")
		line += "---|"
	}
	b.WriteString("\n" + line + "\n")
	for _, one := range all {
		b.WriteString("| **" + one.name + "**: " + one.does + " |")
		for _, of := range registriesOfSuite {
			result := r.by[of.name][one.name]
			switch why, no := strings.CutPrefix(result, "no: "); {
			case no:
				if number[why] == 0 {
					notes = append(notes, why)
					number[why] = len(notes)
				}
				fmt.Fprintf(&b, " no (%d) |", number[why])
			case result == "":
				b.WriteString(" not run |")
			default:
				b.WriteString(" " + result + " |")
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	for i, why := range notes {
		fmt.Fprintf(&b, "%d. %s\n", i+1, why)
	}
	return b.String()
}

const (
	tableBegins = "<!-- conformance: go test ./test/platform/registry -run TestConformance -update -->\n"
	tableEnds   = "<!-- end of conformance -->\n"
)

// holdDocs compares the page's table with the results, if everything was run.
func holdDocs(t *testing.T, found *results, all []behaviour, table string) {
	t.Helper()
	for _, of := range registriesOfSuite {
		for _, b := range all {
			if result := found.by[of.name][b.name]; result != "passed" && !strings.HasPrefix(result, "no: ") {
				t.Logf("the page is not looked at: %q of %s is %q", b.name, of.name, result)
				return
			}
		}
	}
	path := filepath.Join("..", "..", "..", "docs", "registries.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, one := strings.Cut(string(page), tableBegins)
	has, after, two := strings.Cut(rest, tableEnds)
	switch {
	case !one || !two:
		t.Fatalf("%s has no place for the table: want %q and %q", path, tableBegins, tableEnds)
	case has == table:
	case golden.Update():
		if err := os.WriteFile(path, []byte(before+tableBegins+table+tableEnds+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s has another table; go test ./test/platform/registry -run TestConformance -update writes it", path)
	}
}
