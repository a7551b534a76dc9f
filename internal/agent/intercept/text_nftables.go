package intercept

import (
	"fmt"
	"strings"
)

// nftTable is the name of our tables, one for each family.
const nftTable = "fairway"

// nftChain names a chain by its place, because one table holds all of them.
func nftChain(c Chain) string {
	name := strings.ToLower(strings.TrimPrefix(c.Name, "FAIRWAY_"))
	return strings.Join([]string{c.Stage.Table, c.Stage.Hook, name}, "_")
}

// nftKind returns a stage's chain type and priority, as nft(8) lists them; iptables' tables have the same.
func nftKind(s Stage) (kind string, priority int32) {
	switch {
	case s.Table == "raw":
		return "filter", -300
	case s.Table == "nat":
		return "nat", -100
	case s.Hook == "output":
		return "route", -150 // a changed mark has the packet routed again
	default:
		return "filter", -150
	}
}

// nftText writes a family's rules as nft reads them.
func nftText(s Ruleset) string {
	var b strings.Builder
	fmt.Fprintf(&b, "table %s %s {\n", s.Family, nftTable)
	for i, c := range s.Chains {
		if i > 0 {
			b.WriteString("\n")
		}
		kind, priority := nftKind(c.Stage)
		fmt.Fprintf(&b, "\tchain %s {\n\t\ttype %s hook %s priority %d; policy accept;\n", nftChain(c), kind, c.Stage.Hook, priority)
		for _, r := range chainRules(c) {
			fmt.Fprintf(&b, "\t\t%s\n", nftRule(s.Family, r))
		}
		b.WriteString("\t}\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// chainRules returns a chain's rules, each with the chain's protocol: a chain of nftables sees all packets of its stage.
func chainRules(c Chain) []Rule {
	out := make([]Rule, len(c.Rules))
	for i, r := range c.Rules {
		if r.Proto == "" {
			r.Proto = c.Proto
		}
		out[i] = r
	}
	return out
}

func nftRule(f Family, r Rule) string {
	var words []string
	word := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	if r.Source.IsValid() {
		word("%s saddr %s", f, r.Source)
	}
	if r.Dest.IsValid() {
		word("%s daddr %s%s", f, differs(r.NotDest), r.Dest)
	}
	if r.In != "" {
		word("iifname %q", nftInterface(r.In))
	}
	if r.Out != "" {
		word("oifname %q", nftInterface(r.Out))
	}
	if r.Proto != "" {
		word("meta l4proto %s", r.Proto)
	}
	if r.SourcePort != 0 {
		word("%s sport %d", r.Proto, r.SourcePort)
	}
	if r.Port != 0 {
		word("%s dport %s%d", r.Proto, differs(r.NotPort), r.Port)
	}
	for _, o := range r.Owners {
		word("meta %s %s%d", map[bool]string{false: "skuid", true: "skgid"}[o.Group], differs(o.Not), o.ID)
	}
	if r.Mark != nil {
		word("meta mark %s%#x", differs(r.Mark.Not), r.Mark.Value)
	}
	if r.ConnMark != nil {
		word("ct mark %s%#x", differs(r.ConnMark.Not), r.ConnMark.Value)
	}
	switch r.State {
	case Established:
		word("ct state established,related")
	case Invalid:
		word("ct state invalid")
	}
	word("%s", nftStatement(r.Do))
	return strings.Join(words, " ")
}

func differs(not bool) string {
	if not {
		return "!= "
	}
	return ""
}

func nftInterface(name string) string {
	if prefix, ok := strings.CutSuffix(name, "+"); ok {
		return prefix + "*"
	}
	return name
}

func nftStatement(a Action) string {
	switch a.Verb {
	case Drop:
		return "drop"
	case RedirectTo:
		return fmt.Sprintf("redirect to :%d", a.Value)
	case TProxyTo:
		return fmt.Sprintf("tproxy to :%d meta mark set %#x", a.Value, a.Mark)
	case SetMark:
		return fmt.Sprintf("meta mark set %#x", a.Value)
	case SaveMark:
		return "ct mark set meta mark"
	case RestoreMark:
		return "meta mark set ct mark"
	case SetZone:
		return fmt.Sprintf("ct zone set %d", a.Value)
	default:
		return "return"
	}
}
