package command

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/user"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"fairway/internal/agent/intercept"
	"fairway/internal/agent/settings"
	"fairway/internal/identity/safefile"
	"fairway/internal/inherited"
)

// interceptFlags are those of Istio's istio-iptables, as text; each is read from the environment too, under its name in
// capitals with underscores.
type interceptFlags struct {
	mode, outboundPort, inboundPort, tunnelPort, uids, gids, mark, table             string
	inPorts, inPortsExclude, networks, networksExclude, outPorts, outPortsExclude    string
	interfacesExclude, virtualInterfaces, backend, namespace                         string
	redirectDNS, captureAllDNS, dropInvalid, dualStack, dryRun, skip, cleanup, force bool
}

func interceptCommand(stdout io.Writer) *cobra.Command {
	var f interceptFlags
	c := &cobra.Command{
		Use:     "iptables",
		Aliases: []string{"istio-iptables", "nftables", "intercept"},
		Short:   "Has the kernel hand the workload's connections to Envoy, or takes that back",
		Long: "Has the kernel hand the workload's connections to Envoy, or (--cleanup) takes that back without a trace. " +
			"Applying again changes nothing.\n\n" +
			"One back-end makes all rules of a network namespace: nftables needs no program, iptables needs its own. The command's name " +
			"selects it:\niptables uses iptables, nftables uses nftables, istio-iptables and intercept use the one that already has " +
			"rules, else nftables.\n\n" +
			"Each flag is read from the environment too, under its name in capitals with underscores: " +
			"--istio-service-cidr from ISTIO_SERVICE_CIDR.\n" +
			"ISTIO_META_DNS_CAPTURE=true is --redirect-dns; ISTIO_OUTBOUND_OWNER_GROUPS and " +
			"ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE name the groups with\nthe only processes that are intercepted, or with those that are " +
			"not.",
		Args: cobra.NoArgs,
	}
	addInterceptFlags(c, &f)
	inherited.Interception().Accept(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		log := slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil))
		inherited.Interception().Report(log, func(string) (string, bool) { return "", false }, c.Flags())
		// A namespace belongs to a thread; this one ends with the command.
		done := make(chan error, 1)
		go func() {
			runtime.LockOSThread()
			done <- f.run(c, stdout)
		}()
		return <-done
	}
	return c
}

func (f *interceptFlags) run(c *cobra.Command, stdout io.Writer) error {
	if err := enterNamespace(f.namespace); err != nil {
		return err
	}
	env, err := settings.ThisEnvironment()
	if err != nil {
		return err
	}
	if err := f.fromEnvironment(c, env.Vars); err != nil {
		return err
	}
	if f.backend == "" {
		f.backend = map[string]string{"iptables": "iptables", "nftables": "nftables"}[c.CalledAs()]
	}
	if f.backend == "" {
		f.backend = string(intercept.Auto)
	}
	return runIntercept(c, *f, env, stdout)
}

func addInterceptFlags(c *cobra.Command, f *interceptFlags) {
	s := c.Flags()
	s.StringVarP(&f.outboundPort, "envoy-port", "p", "15001", "port of Envoy that takes what the workload sends")
	s.StringVarP(&f.inboundPort, "inbound-capture-port", "z", "15006", "port of Envoy that takes what the workload receives")
	s.StringVarP(&f.tunnelPort, "inbound-tunnel-port", "e", "15008", "port that ends tunnels by itself and is never intercepted; 0: none")
	s.StringVarP(&f.uids, "proxy-uid", "u", "1337",
		"users that Envoy and the agent run as, by number or name, with commas between; their connections are left alone")
	s.StringVarP(&f.gids, "proxy-gid", "g", "", "groups that Envoy and the agent run as (default as --proxy-uid)")
	s.StringVarP(&f.mode, "istio-inbound-interception-mode", "m", "REDIRECT",
		"REDIRECT, or TPROXY: the workload sees its clients' addresses, and Envoy needs CAP_NET_ADMIN")
	s.StringVarP(&f.mark, "istio-inbound-tproxy-mark", "t", "1337", "mark of packets under TPROXY; the number after it is taken too")
	s.StringVarP(&f.table, "istio-inbound-tproxy-route-table", "r", "133", "routing table of marked packets under TPROXY")
	s.StringVarP(&f.inPorts, "istio-inbound-ports", "b", "", "inbound ports to intercept, with commas between; *: all; empty: none")
	s.StringVarP(&f.inPortsExclude, "istio-local-exclude-ports", "d", "",
		"inbound ports not to intercept where all are; 15020, 15021 and 15090, the proxy's own, never are")
	s.StringVarP(&f.networks, "istio-service-cidr", "i", "",
		"networks of destinations to intercept, with commas between; *: all; empty: none")
	s.StringVarP(&f.networksExclude, "istio-service-exclude-cidr", "x", "", "networks of destinations not to intercept")
	s.StringVarP(&f.outPorts, "istio-outbound-ports", "q", "", "outbound ports to intercept whatever the network")
	s.StringVarP(&f.outPortsExclude, "istio-local-outbound-ports-exclude", "o", "", "outbound ports not to intercept")
	s.StringVarP(&f.interfacesExclude, "istio-exclude-interfaces", "c", "",
		"network interfaces with traffic that is not intercepted; a + at the end matches any end")
	s.StringVarP(&f.virtualInterfaces, "kube-virt-interfaces", "k", "",
		"network interfaces of guests: traffic that arrives on them is treated as outbound")
	s.BoolVar(&f.redirectDNS, "redirect-dns", false, "hand DNS queries to the agent's DNS proxy on port 15053")
	s.BoolVar(&f.captureAllDNS, "capture-all-dns", false,
		"with --redirect-dns: queries to any server, not only to those of /etc/resolv.conf")
	s.BoolVar(&f.dropInvalid, "drop-invalid", false, "drop inbound packets that belong to no connection")
	s.BoolVar(&f.dualStack, "dual-stack", false, "intercept IPv6 as well (default: where this machine has an IPv6 address)")
	s.BoolVarP(&f.dryRun, "dry-run", "n", false, "print the rules and change nothing")
	s.BoolVar(&f.skip, "skip-rule-apply", false, "check the options and change nothing (a CNI plugin makes the rules)")
	s.BoolVar(&f.cleanup, "cleanup", false, "remove all that this command ever made here, whatever the back-end")
	s.BoolVar(&f.cleanup, "cleanup-only", false, "the same as --cleanup")
	s.BoolVar(&f.force, "force-apply", false, "accepted and needless: rules that differ are always replaced")
	s.BoolVar(&f.force, "reconcile", false, "accepted and needless: rules that differ are always replaced")
	s.StringVar(&f.backend, "backend", "", "auto, nftables, iptables, iptables-nft or iptables-legacy (default by the name of the command)")
	s.StringVar(&f.namespace, "network-namespace", "", "file of the network namespace to work in (default this process's)")
}

// fromEnvironment sets each flag that was not given.
func (f *interceptFlags) fromEnvironment(c *cobra.Command, vars map[string]string) error {
	var errs []error
	set := func(flag, variable string) {
		if v, ok := vars[variable]; ok && v != "" && !c.Flags().Changed(flag) {
			if err := c.Flags().Set(flag, v); err != nil {
				errs = append(errs, settings.Usage("%s: %w", variable, err))
			}
		}
	}
	for _, flag := range []string{
		"envoy-port", "inbound-capture-port", "inbound-tunnel-port", "proxy-uid", "proxy-gid", "istio-inbound-interception-mode",
		"istio-inbound-tproxy-mark",
		"istio-inbound-tproxy-route-table", "istio-inbound-ports", "istio-local-exclude-ports", "istio-service-cidr",
		"istio-service-exclude-cidr",
		"istio-outbound-ports", "istio-local-outbound-ports-exclude", "istio-exclude-interfaces", "kube-virt-interfaces",
		"redirect-dns", "capture-all-dns",
		"drop-invalid", "dual-stack", "dry-run", "skip-rule-apply",
	} {
		set(flag, strings.ToUpper(strings.ReplaceAll(flag, "-", "_")))
	}
	set("redirect-dns", "ISTIO_META_DNS_CAPTURE")
	set("dual-stack", "ISTIO_DUAL_STACK")
	return errors.Join(errs...)
}

func runIntercept(c *cobra.Command, f interceptFlags, env settings.Environment, stdout io.Writer) error {
	o, err := f.options(env)
	if err == nil {
		err = o.Validate()
	}
	if err != nil && !f.cleanup {
		return &settings.UsageError{Err: err}
	}
	if f.dryRun && f.cleanup {
		fmt.Fprintf(stdout,
			"# removes the nftables tables ip fairway and ip6 fairway, iptables' chains FAIRWAY_*, and routes and rules of protocol %d\n",
			intercept.RouteProtocol)
		return nil
	}
	if f.dryRun {
		return intercept.Print(stdout, o, intercept.Backend(f.backend))
	}
	if f.skip {
		fmt.Fprintln(stdout, "no rules are made here: --skip-rule-apply")
		return nil
	}
	if f.cleanup {
		r, err := intercept.Cleanup(c.Context())
		if err != nil {
			return fmt.Errorf("remove interception: %w", err)
		}
		fmt.Fprintln(stdout, cleanupMessage(r))
		return nil
	}
	r, err := intercept.Apply(c.Context(), o, intercept.Backend(f.backend))
	if err != nil {
		return fmt.Errorf("intercept connections: %w", err)
	}
	fmt.Fprintln(stdout, applyMessage(o, r))
	return nil
}

func cleanupMessage(r intercept.Result) string {
	if r.Changed {
		return "interception is removed"
	}
	return "there is nothing to remove"
}

func applyMessage(o intercept.Options, r intercept.Result) string {
	switch {
	case !o.Captures():
		return "nothing is intercepted: name ports (--istio-inbound-ports) or networks (--istio-service-cidr), or * for all"
	case r.Changed:
		return fmt.Sprintf("connections are intercepted, by %s", r.Backend)
	}
	return fmt.Sprintf("connections are intercepted already, by %s; nothing changed", r.Backend)
}

func enterNamespace(path string) error {
	if path == "" {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open the network namespace: %w", err)
	}
	defer file.Close()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the network namespace %s: %w", path, err)
	}
	return nil
}

// flagText reads the text of flags, and notes all that is wrong.
type flagText struct{ errs []error }

func (r *flagText) note(flag string, err error) {
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", flag, err))
	}
}

func (r *flagText) number(flag, text string, bits int) uint32 {
	n, err := strconv.ParseUint(text, 0, bits)
	r.note(flag, err)
	return uint32(n)
}

// ports reads a list of ports; a star is an error unless all is set.
func (r *flagText) ports(flag, text string, all bool) intercept.Ports {
	p, err := intercept.ParsePorts(text)
	r.note(flag, err)
	r.starred(flag, p.All && !all)
	return p
}

func (r *flagText) networks(flag, text string, all bool) intercept.Networks {
	n, err := intercept.ParseNetworks(text)
	r.note(flag, err)
	r.starred(flag, n.All && !all)
	return n
}

func (r *flagText) ids(flag, text string, all bool, number func(string) (string, error)) intercept.Groups {
	g, err := intercept.ParseIDs(text, number)
	r.note(flag, err)
	r.starred(flag, g.All && !all)
	return g
}

func (r *flagText) starred(flag string, bad bool) {
	if bad {
		r.note(flag, errors.New("* is not allowed here"))
	}
}

// options reads the flags' text. It reports all errors at once.
func (f interceptFlags) options(env settings.Environment) (intercept.Options, error) {
	o := intercept.DefaultOptions()
	var r flagText
	o.Mode = intercept.Mode(f.mode)
	o.OutboundPort = uint16(r.number("--envoy-port", f.outboundPort, 16))
	o.InboundPort = uint16(r.number("--inbound-capture-port", f.inboundPort, 16))
	o.TunnelPort = uint16(r.number("--inbound-tunnel-port", f.tunnelPort, 16))
	o.Mark = r.number("--istio-inbound-tproxy-mark", f.mark, 32)
	o.RouteTable = r.number("--istio-inbound-tproxy-route-table", f.table, 32)

	o.InboundPorts = r.ports("--istio-inbound-ports", f.inPorts, true)
	o.InboundPortsExclude = r.ports("--istio-local-exclude-ports", f.inPortsExclude, false).List
	o.OutboundPorts = r.ports("--istio-outbound-ports", f.outPorts, false).List
	o.OutboundPortsExclude = r.ports("--istio-local-outbound-ports-exclude", f.outPortsExclude, false).List
	o.OutboundNetworks = r.networks("--istio-service-cidr", f.networks, true)
	o.OutboundNetworkExclude = r.networks("--istio-service-exclude-cidr", f.networksExclude, false).List

	f.readOwners(&r, &o, env)
	o.ExcludeInterfaces, o.VirtualInterfaces = intercept.ParseNames(f.interfacesExclude), intercept.ParseNames(f.virtualInterfaces)
	o.RedirectDNS, o.CaptureAllDNS, o.DropInvalid = f.redirectDNS, f.captureAllDNS, f.dropInvalid
	o.IPv6 = f.dualStack || hasIPv6(env.Addresses)
	if f.redirectDNS {
		servers, err := nameservers("/etc/resolv.conf")
		r.note("--redirect-dns", err)
		o.Nameservers = servers
	}
	return o, errors.Join(r.errs...)
}

// readOwners reads the users and groups of the proxy, and the groups of the processes that are intercepted, or are not.
func (f interceptFlags) readOwners(r *flagText, o *intercept.Options, env settings.Environment) {
	o.ProxyUIDs = r.ids("--proxy-uid", f.uids, false, userNumber).List
	o.ProxyGIDs = o.ProxyUIDs
	if f.gids != "" {
		o.ProxyGIDs = r.ids("--proxy-gid", f.gids, false, groupNumber).List
	}
	const only, except = "ISTIO_OUTBOUND_OWNER_GROUPS", "ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE"
	if groups := env.Vars[only]; groups != "" {
		o.OutboundGroups = r.ids(only, groups, true, groupNumber)
	}
	o.OutboundGroupsExclude = r.ids(except, env.Vars[except], false, groupNumber).List
}

func userNumber(name string) (string, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return "", err
	}
	return u.Uid, nil
}

func groupNumber(name string) (string, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		return "", err
	}
	return g.Gid, nil
}

func hasIPv6(addresses []string) bool {
	for _, text := range addresses {
		if a, err := netip.ParseAddr(text); err == nil && a.Is6() && !a.Is4In6() {
			return true
		}
	}
	return false
}

// longestResolv bounds a resolv.conf(5), in bytes.
const longestResolv = 16 << 20

// nameservers reads the servers of a resolv.conf(5). A missing file names none.
func nameservers(path string) ([]netip.Addr, error) {
	content, err := safefile.Read(path, longestResolv)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 || words[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(words[1]); err == nil {
			out = append(out, a)
		}
	}
	return out, lines.Err()
}
