package intercept

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ourChain is the prefix of our chains' names.
const ourChain = "FAIRWAY_"

// iptablesTable holds our part of a table, without leading words: chains' names, "PREROUTING -p tcp -j FAIRWAY_INBOUND",
// "FAIRWAY_INBOUND … -j …".
type iptablesTable struct {
	chains, jumps, rules []string
}

// iptablesState holds our part of a family, by table.
type iptablesState map[string]iptablesTable

// parseSave reads our part of the output of iptables-save.
func parseSave(text string) iptablesState {
	out := iptablesState{}
	table := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "*"); ok {
			table = name
		}
		t := out[table]
		name, _, _ := strings.Cut(strings.TrimPrefix(line, ":"), " ")
		rule, isRule := strings.CutPrefix(line, "-A ")
		switch {
		case strings.HasPrefix(line, ":"+ourChain):
			t.chains = append(t.chains, name)
		case isRule && strings.HasPrefix(rule, ourChain):
			t.rules = append(t.rules, rule)
		case isRule && strings.Contains(rule, " -j "+ourChain):
			t.jumps = append(t.jumps, rule)
		default:
			continue
		}
		out[table] = t
	}
	return out
}

// same reports whether two states are equal. The order of chains and jumps does not count, for iptables sorts chains; that of rules does.
func (s iptablesState) same(other iptablesState) bool {
	return maps.EqualFunc(s, other, func(a, b iptablesTable) bool {
		return slices.Equal(slices.Sorted(slices.Values(a.chains)), slices.Sorted(slices.Values(b.chains))) &&
			slices.Equal(slices.Sorted(slices.Values(a.jumps)), slices.Sorted(slices.Values(b.jumps))) &&
			slices.Equal(byChain(a.rules), byChain(b.rules))
	})
}

func byChain(rules []string) []string {
	out := slices.Clone(rules)
	slices.SortStableFunc(out, func(a, b string) int {
		x, _, _ := strings.Cut(a, " ")
		y, _, _ := strings.Cut(b, " ")
		return strings.Compare(x, y)
	})
	return out
}

// transition writes the input of iptables-restore --noflush that changes one state to another; empty: nothing to do. Each table
// changes as a whole. Jumps that stay keep their place among others' rules.
func transition(from, to iptablesState) string {
	var b strings.Builder
	for _, table := range []string{"raw", "mangle", "nat"} {
		old, now := from[table], to[table]
		if len(old.chains)+len(old.jumps)+len(now.chains) == 0 {
			continue
		}
		fmt.Fprintf(&b, "*%s\n", table)
		all := slices.Concat(now.chains, without(old.chains, now.chains))
		writeLines(&b, ":%s - [0:0]\n", all) // creates a chain, or empties it
		writeLines(&b, "-D %s\n", without(old.jumps, now.jumps))
		writeLines(&b, "-X %s\n", without(old.chains, now.chains))
		writeLines(&b, "-A %s\n", now.rules)
		writeLines(&b, "-A %s\n", without(now.jumps, old.jumps))
		b.WriteString("COMMIT\n")
	}
	return b.String()
}

func writeLines(b *strings.Builder, format string, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(b, format, line)
	}
}

func without(all, gone []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(gone, s) })
}
