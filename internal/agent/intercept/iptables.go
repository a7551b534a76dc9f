package intercept

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// iptables applies rules by the programs of one variant.
type iptables struct{ variant Backend }

func (t iptables) name() Backend { return t.variant }

// tools returns the name of a family's programs before the suffix.
func tools(f Family) string {
	if f == IPv6 {
		return "ip6tables"
	}
	return "iptables"
}

// program finds a family's program ("save", "restore") of a variant: by
// the variant's own name, or by the plain one if that is of this variant.
func (t iptables) program(ctx context.Context, f Family, what string) (string, error) {
	suffix := strings.TrimPrefix(string(t.variant), "iptables")
	if path, err := exec.LookPath(tools(f) + suffix + "-" + what); err == nil {
		return path, nil
	}
	plain := tools(f) + "-" + what
	path, err := exec.LookPath(plain)
	if err != nil {
		return "", fmt.Errorf("%s: install iptables, or use the nftables back-end: %w", plain, err)
	}
	if got := variantOf(ctx, path); got != t.variant {
		return "", fmt.Errorf("%s is of %s, not of %s: %w", path, got, t.variant, exec.ErrNotFound)
	}
	return path, nil
}

// variantOf asks a program for its variant. Programs that do not name one are older than iptables-nft.
func variantOf(ctx context.Context, path string) Backend {
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err == nil && bytes.Contains(out, []byte("nf_tables")) {
		return IptablesNft
	}
	return IptablesLegacy
}

// installedVariant returns the variant of the plain iptables-restore.
func installedVariant(ctx context.Context) (Backend, error) {
	path, err := exec.LookPath("iptables-restore")
	if err != nil {
		return "", fmt.Errorf("install iptables, or use the nftables back-end: %w", err)
	}
	return variantOf(ctx, path), nil
}

func (t iptables) run(ctx context.Context, stdin, path string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", path, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// state reads our part of a family's rules. If IPv6's programs are missing, IPv6 has no rules.
func (t iptables) state(ctx context.Context, f Family) (iptablesState, error) {
	path, err := t.program(ctx, f, "save")
	if f == IPv6 && errors.Is(err, exec.ErrNotFound) {
		return iptablesState{}, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := t.run(ctx, "", path)
	if err != nil {
		return nil, err
	}
	return parseSave(text), nil
}

// found finds rules of iptables-nft without its programs, those of iptables-legacy only with them.
func (t iptables) found(ctx context.Context) (bool, error) {
	if t.variant == IptablesNft {
		return nftChains(ourChain)
	}
	if _, err := t.program(ctx, IPv4, "save"); errors.Is(err, exec.ErrNotFound) {
		return false, nil
	}
	for _, f := range []Family{IPv4, IPv6} {
		s, err := t.state(ctx, f)
		if err != nil || len(s) > 0 {
			return len(s) > 0, err
		}
	}
	return false, nil
}

func (t iptables) apply(ctx context.Context, rules []Ruleset) (bool, error) {
	want := map[Family]iptablesState{IPv4: {}, IPv6: {}}
	for _, s := range rules {
		want[s.Family] = wanted(s)
	}
	return t.change(ctx, want)
}

func (t iptables) cleanup(ctx context.Context) (bool, error) {
	return t.change(ctx, map[Family]iptablesState{IPv4: {}, IPv6: {}})
}

// change changes the rules to a state, and on failure back to the former state: each table changes as a whole, but tables and
// families change one after another.
func (t iptables) change(ctx context.Context, want map[Family]iptablesState) (bool, error) {
	before := map[Family]iptablesState{}
	for f := range want {
		s, err := t.state(ctx, f)
		if err != nil {
			return false, err
		}
		before[f] = s
	}
	changed := false
	for _, f := range []Family{IPv4, IPv6} {
		if before[f].same(want[f]) {
			continue
		}
		changed = true
		if err := t.restore(ctx, f, transition(before[f], want[f])); err != nil {
			return false, errors.Join(fmt.Errorf("put the rules in place: %w", err), t.rollBack(ctx, before))
		}
	}
	return changed, nil
}

// rollBack restores the former state, even if ctx has ended.
func (t iptables) rollBack(ctx context.Context, before map[Family]iptablesState) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for _, f := range []Family{IPv4, IPv6} {
		now, err := t.state(ctx, f)
		if err == nil && !now.same(before[f]) {
			err = t.restore(ctx, f, transition(now, before[f]))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("undo it: %w", err))
		}
	}
	return errors.Join(errs...)
}

// restore runs a script. It waits at most five seconds for another program that holds iptables' lock.
func (t iptables) restore(ctx context.Context, f Family, script string) error {
	path, err := t.program(ctx, f, "restore")
	if err != nil {
		return err
	}
	_, err = t.run(ctx, script, path, "--noflush", "--wait", "5")
	return err
}
