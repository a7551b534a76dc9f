package intercept

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Backend is a way to put rules into the kernel.
type Backend string

// The back-ends. Auto and Iptables are choices; a Result names one of the others.
const (
	Auto           Backend = "auto"            // the one that has rules here, else Nftables if the kernel has it, else Iptables
	Nftables       Backend = "nftables"        // by netlink, without any program
	Iptables       Backend = "iptables"        // the variant of the machine's iptables-restore
	IptablesNft    Backend = "iptables-nft"    // iptables' programs that write nf_tables
	IptablesLegacy Backend = "iptables-legacy" // iptables' programs that write ip_tables
)

// Errors that callers tell apart.
var (
	// ErrPermission: the process lacks CAP_NET_ADMIN. Nothing was changed.
	ErrPermission = errors.New("the kernel lets this process change no packet rules: it needs CAP_NET_ADMIN in its network namespace; " +
		"run it as root, or give its container the capability (securityContext.capabilities.add: [NET_ADMIN])")
	// ErrMixed: another back-end has rules of ours here. Nothing was changed.
	ErrMixed = errors.New("interception by two back-ends at once is refused")
)

// Result is the result of Apply and Cleanup.
type Result struct {
	Backend Backend // of the rules that exist now, or, after Cleanup, existed before; empty: none
	Changed bool
}

type backend interface {
	name() Backend
	found(context.Context) (bool, error)
	apply(context.Context, []Ruleset) (changed bool, err error)
	cleanup(context.Context) (changed bool, err error)
}

// all returns the back-ends in the order of preference.
func all() []backend {
	return []backend{nft{}, iptables{IptablesNft}, iptables{IptablesLegacy}}
}

// found returns the back-ends that have rules of ours. If iptables' programs are missing, its rules cannot be seen.
func found(ctx context.Context) ([]backend, error) {
	var out []backend
	for _, b := range all() {
		there, err := b.found(ctx)
		if unsupported(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look for rules of %s: %w", b.name(), explain(err))
		}
		if there {
			out = append(out, b)
		}
	}
	return out, nil
}

// Apply adds the rules of o and removes all others of ours. A second Apply of the same options changes nothing. On an error the
// rules are as before; an error while a half-made change is undone is joined to its cause.
func Apply(ctx context.Context, o Options, choice Backend) (Result, error) {
	if err := o.Validate(); err != nil {
		return Result{}, err
	}
	b, err := choose(ctx, choice)
	if err != nil {
		return Result{}, err
	}
	want := wantedRoutes(o)
	var before []route
	routed := false
	if len(want) > 0 { // before the rules that need them; routes that are no longer needed are removed after the rules
		if before, routed, err = setRoutes(want, true); err != nil {
			return Result{}, explain(err)
		}
	}
	changed, err := b.apply(ctx, Build(o))
	if err != nil {
		if routed {
			_, _, undo := setRoutes(before, false)
			err = errors.Join(err, undo)
		}
		return Result{}, fmt.Errorf("%s: %w", b.name(), explain(err))
	}
	_, dropped, err := setRoutes(want, false)
	if err != nil {
		return Result{}, explain(err)
	}
	return Result{b.name(), changed || routed || dropped}, nil
}

// Cleanup removes all rules and routes of ours, of any back-end and any options.
func Cleanup(ctx context.Context) (Result, error) {
	there, err := found(ctx)
	if err != nil {
		return Result{}, err
	}
	var out Result
	for _, b := range there {
		changed, err := b.cleanup(ctx)
		if err != nil {
			return out, fmt.Errorf("%s: %w", b.name(), explain(err))
		}
		out.Backend, out.Changed = b.name(), out.Changed || changed
	}
	_, routed, err := setRoutes(nil, false)
	out.Changed = out.Changed || routed
	return out, explain(err)
}

// choose returns the back-end to use, and refuses to mix two.
func choose(ctx context.Context, choice Backend) (backend, error) {
	there, err := found(ctx)
	if err != nil {
		return nil, err
	}
	if choice == Auto && len(there) == 1 {
		return there[0], nil
	}
	name, err := resolve(ctx, choice)
	if err != nil {
		return nil, err
	}
	var chosen backend
	for _, b := range all() {
		if b.name() == name {
			chosen = b
		}
	}
	for _, b := range there {
		if b.name() != name {
			return nil, fmt.Errorf("%w: rules of %s are there and %s was asked for; remove them first (--cleanup), or ask for %s",
				ErrMixed, b.name(), name, b.name())
		}
	}
	return chosen, nil
}

// resolve returns the back-end that a choice means on this machine.
func resolve(ctx context.Context, choice Backend) (Backend, error) {
	switch choice {
	case Nftables, IptablesNft, IptablesLegacy:
		return choice, nil
	case Iptables:
		return installedVariant(ctx)
	case Auto:
		if _, err := (nft{}).found(ctx); err == nil || !unsupported(err) {
			return Nftables, explain(err)
		}
		return installedVariant(ctx)
	}
	return "", unknown(choice)
}

func unknown(choice Backend) error {
	return fmt.Errorf("back-end %q is not one of %s, %s, %s, %s, %s", choice, Auto, Nftables, Iptables, IptablesNft, IptablesLegacy)
}

// unsupported reports whether an error means that the kernel has no nf_tables.
func unsupported(err error) bool {
	for _, no := range []error{unix.EPROTONOSUPPORT, unix.EOPNOTSUPP, unix.EAFNOSUPPORT, unix.ENOSYS, unix.EINVAL} {
		if err != nil && (errors.Is(err, no) || strings.Contains(err.Error(), no.Error())) {
			return true
		}
	}
	return false
}

// explain adds how to get a missing permission. Neither the library nor
// iptables passes on the kernel's error number, so it matches words.
func explain(err error) error {
	if err == nil || errors.Is(err, ErrPermission) {
		return err
	}
	for _, said := range []string{"operation not permitted", "permission denied", "you must be root"} {
		if strings.Contains(strings.ToLower(err.Error()), said) || errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("%w: %w", ErrPermission, err)
		}
	}
	return err
}

// Print writes what Apply would make of o on a machine without rules of ours: for nftables as nft reads it, for iptables as its
// restore programs read it.
func Print(w io.Writer, o Options, choice Backend) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if !slices.Contains([]Backend{Auto, Nftables, Iptables, IptablesNft, IptablesLegacy}, choice) {
		return unknown(choice)
	}
	for _, r := range wantedRoutes(o) {
		family := map[byte]string{unix.AF_INET: "-4", unix.AF_INET6: "-6"}[r.family]
		to := "default"
		if r.to.IsValid() {
			to = r.to.String()
		}
		line := fmt.Sprintf("# ip %s route add local %s dev lo table %d protocol %d\n", family, to, r.table, RouteProtocol)
		if r.mark != 0 {
			line = fmt.Sprintf("# ip %s rule add fwmark %#x lookup %d protocol %d\n", family, r.mark, r.table, RouteProtocol)
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	for _, s := range Build(o) {
		if len(s.Chains) == 0 {
			continue
		}
		text := nftText(s)
		if choice != Nftables && choice != Auto {
			text = fmt.Sprintf("# %s-restore --noflush\n%s", tools(s.Family), transition(iptablesState{}, wanted(s)))
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}
