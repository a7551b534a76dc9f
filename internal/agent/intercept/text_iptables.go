package intercept

import (
	"fmt"
	"net/netip"
	"strings"
)

// iptablesRule writes a rule as iptables-save prints it, without its chain, so that existing rules can be compared with wanted
// ones. The order is addresses, interfaces, protocol, matches, target (iptables-extensions(8) has the names).
func iptablesRule(f Family, r Rule) string {
	var b strings.Builder
	word := func(format string, args ...any) { fmt.Fprintf(&b, " "+format, args...) }
	if r.Source.IsValid() {
		word("-s %s", r.Source)
	}
	if r.Dest.IsValid() {
		word("%s-d %s", unless(r.NotDest), r.Dest)
	}
	if r.In != "" {
		word("-i %s", r.In)
	}
	if r.Out != "" {
		word("-o %s", r.Out)
	}
	if r.Proto != "" {
		word("-p %s", r.Proto)
	}
	if r.SourcePort != 0 {
		word("-m %s --sport %d", r.Proto, r.SourcePort)
	}
	if r.Port != 0 {
		word("-m %s %s--dport %d", r.Proto, unless(r.NotPort), r.Port)
	}
	for _, o := range r.Owners {
		word("-m owner %s%s %d", unless(o.Not), map[bool]string{false: "--uid-owner", true: "--gid-owner"}[o.Group], o.ID)
	}
	if r.Mark != nil {
		word("-m mark %s--mark %#x", unless(r.Mark.Not), r.Mark.Value)
	}
	if r.ConnMark != nil {
		word("-m connmark %s--mark %#x", unless(r.ConnMark.Not), r.ConnMark.Value)
	}
	switch r.State {
	case Established:
		word("-m conntrack --ctstate RELATED,ESTABLISHED")
	case Invalid:
		word("-m conntrack --ctstate INVALID")
	}
	word("-j %s", iptablesTarget(f, r.Do))
	return b.String()[1:]
}

func unless(not bool) string {
	if not {
		return "! "
	}
	return ""
}

func iptablesTarget(f Family, a Action) string {
	switch a.Verb {
	case Drop:
		return "DROP"
	case RedirectTo:
		return fmt.Sprintf("REDIRECT --to-ports %d", a.Value)
	case TProxyTo:
		any := map[Family]netip.Addr{IPv4: netip.IPv4Unspecified(), IPv6: netip.IPv6Unspecified()}[f]
		return fmt.Sprintf("TPROXY --on-port %d --on-ip %s --tproxy-mark %#x/0xffffffff", a.Value, any, a.Mark)
	case SetMark:
		return fmt.Sprintf("MARK --set-xmark %#x/0xffffffff", a.Value)
	case SaveMark:
		return "CONNMARK --save-mark --nfmask 0xffffffff --ctmask 0xffffffff"
	case RestoreMark:
		return "CONNMARK --restore-mark --nfmask 0xffffffff --ctmask 0xffffffff"
	case SetZone:
		return fmt.Sprintf("CT --zone %d", a.Value)
	default:
		return "RETURN"
	}
}

// jump returns the rule of a built-in chain that leads to one of ours.
func jump(c Chain) string {
	proto := ""
	if c.Proto != "" {
		proto = "-p " + string(c.Proto) + " "
	}
	return strings.ToUpper(c.Stage.Hook) + " " + proto + "-j " + c.Name
}

// wanted returns the state that a family's rules make, by table.
func wanted(s Ruleset) iptablesState {
	out := iptablesState{}
	for _, c := range s.Chains {
		t := out[c.Stage.Table]
		t.chains = append(t.chains, c.Name)
		t.jumps = append(t.jumps, jump(c))
		for _, r := range c.Rules {
			t.rules = append(t.rules, c.Name+" "+iptablesRule(s.Family, r))
		}
		out[c.Stage.Table] = t
	}
	return out
}
