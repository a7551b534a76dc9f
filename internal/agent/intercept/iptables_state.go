package intercept

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ourChain is how the chains start that are ours.
const ourChain = "FAIRWAY_"

// iptablesTable is what is ours in a table, without leading words: chains' names, "PREROUTING -p tcp -j
// FAIRWAY_INBOUND", "FAIRWAY_INBOUND … -j …".
type iptablesTable struct {
	chains, jumps, rules []string
}

// iptablesState is what is ours in a family, by table.
type iptablesState map[string]iptablesTable

// parseSave reads what is ours from the output of iptables-save.
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

// same tells whether two states are one. Chains are listed in any order, for iptables sorts them; rules of one chain are not.
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

// transition writes what iptables-restore --noflush needs to lead from one state to another; empty: nothing. Each table
// changes as a whole. Jumps that stay are left at their place among others' rules.
func transition(from, to iptablesState) string {
	var b strings.Builder
	for _, table := range []string{"raw", "mangle", "nat"} {
		old, now := from[table], to[table]
		if len(old.chains)+len(old.jumps)+len(now.chains) == 0 {
			continue
		}
		fmt.Fprintf(&b, "*%s\n", table)
		all := slices.Concat(now.chains, without(old.chains, now.chains))
		writeLines(&b, ":%s - [0:0]\n", all) // makes a chain, or empties it
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
