// Package inherited lists the environment variables and flags of Istio's programs, with what each does here. It must not know
// their values: these may be secret.
package inherited

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// State is the effect of Istio's variable or flag here.
type State string

// The states that there are.
const (
	InForce   State = "in force"
	NotNeeded State = "not needed"
	NotYet    State = "not yet"
)

// Group is variables or flags that do the same here, for the same reason.
type Group struct {
	State State
	Why   string // empty for those in force
	Names []string
}

// Program has the variables and flags of one of Istio's programs.
type Program struct {
	Name      string
	Variables []Group
	Flags     []Group // of the command that runs the program; names have no dashes
}

func group(state State, why, names string) Group {
	return Group{State: state, Why: why, Names: strings.Fields(names)}
}

// Report logs a line for each variable that is set and each flag that is given without being in force. Values are not logged.
func (p Program) Report(log *slog.Logger, look func(string) (string, bool), flags *pflag.FlagSet) {
	line := func(g Group, text, key, name string) {
		level := slog.LevelInfo
		if g.State == NotYet {
			level = slog.LevelWarn
		}
		log.Log(context.Background(), level, text, key, name, "state", string(g.State), "why", g.Why)
	}
	for _, g := range without(p.Variables) {
		for _, name := range g.Names {
			if value, ok := look(name); ok && value != "" {
				line(g, "an environment variable of Istio's has no effect", "variable", name)
			}
		}
	}
	for _, g := range without(p.Flags) {
		for _, name := range g.Names {
			if flag := flags.Lookup(name); flag != nil && flag.Changed {
				line(g, "a flag of Istio's has no effect", "flag", "--"+name)
			}
		}
	}
}

// without returns the groups that have no effect.
func without(all []Group) []Group {
	return slices.DeleteFunc(slices.Clone(all), func(g Group) bool { return g.State == InForce })
}

// Accept declares the flags that have no effect, so that command lines of Istio's are accepted. Help does not show them.
func (p Program) Accept(flags *pflag.FlagSet) {
	for _, g := range without(p.Flags) {
		for _, name := range g.Names {
			if flags.Lookup(name) != nil {
				continue
			}
			flags.Var(&ignored{}, name, "accepted, without effect: "+g.Why)
			flag := flags.Lookup(name)
			flag.Hidden = true
			if slices.Contains(switches, name) {
				flag.NoOptDefVal = "true"
			}
		}
	}
}

// switches are flags without a value of their own.
var switches = []string{
	"cni-mode", "disableInternalTelemetry", "force-legacy-iptables", "iptables-trace-logging", "log_as_json", "native-nftables",
	"profiling", "restore-format", "run-validation",
}

// ignored takes any value and keeps none.
type ignored struct{}

// Set accepts any value.
func (*ignored) Set(string) error { return nil }

// String returns nothing.
func (*ignored) String() string { return "" }

// Type names the kind of value in help.
func (*ignored) Type() string { return "string" }
