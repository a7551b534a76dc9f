package workload

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/identity"
	"fairway/internal/mesh"
)

// Options are the flags; command.go documents each.
type Options struct {
	File, Name, Namespace, Account string
	Labels                         map[string]string
	Address                        string
	AutoRegister                   bool
	Output                         string
	Overwrite                      bool
	Directory                      string
	ClusterID, TrustDomain         string
	Discovery, IngressIP           string
	Root, TokenFile, StateDir      string
	TokenDuration                  time.Duration
	Interception                   string
	CaptureDNS                     bool
	User, Agent, Envoy             string
}

// defaultDiscovery is the address at which agents look for the control plane's secure port; its certificate has this name.
const defaultDiscovery = "istiod.istio-system.svc:15012"

// machine holds the content of all files.
type machine struct {
	Options
	name, namespace string
	id              identity.ID
	labels          map[string]string
	annotations     map[string]string
	template        *networking.WorkloadEntry
	probe           *networking.ReadinessProbe
	discoveryHost   string
}

// resolve checks the options and merges them over the group's file. The error lists every mistake.
func resolve(o Options) (*machine, error) {
	m := &machine{Options: o, labels: map[string]string{}, template: &networking.WorkloadEntry{}}
	group, err := readGroup(o)
	if err != nil {
		return nil, err
	}
	m.name, m.namespace = o.Name, o.Namespace
	if group != nil {
		m.from(group)
	}
	maps.Copy(m.labels, o.Labels)
	return m, errors.Join(m.checkWho(), m.checkWhere(), m.checkMachine())
}

func (m *machine) from(group *config.Object) {
	spec := config.Spec[*networking.WorkloadGroup](group)
	m.name, m.namespace = group.Name, group.Namespace
	if m.Namespace != "" {
		m.namespace = m.Namespace
	}
	maps.Copy(m.labels, spec.GetTemplate().GetLabels())
	maps.Copy(m.labels, spec.GetMetadata().GetLabels())
	m.annotations, m.probe = spec.GetMetadata().GetAnnotations(), spec.GetProbe()
	if t := spec.GetTemplate(); t != nil {
		m.template = t
	}
}

// readGroup returns the WorkloadGroup of the file; nil: none was asked for.
func readGroup(o Options) (*config.Object, error) {
	if o.File == "" {
		return nil, nil
	}
	text, err := disk.Stream(o.File, disk.MaxFile)
	if err != nil {
		return nil, fmt.Errorf("-f: %w", err)
	}
	decoder, err := config.NewDecoder(config.Options{DefaultNamespace: o.Namespace})
	if err != nil {
		return nil, err
	}
	var found []*config.Object
	for _, doc := range config.Split(o.File, text) {
		object, problems := decoder.Decode(doc)
		for _, p := range problems {
			if p.Severity == mesh.Error && p.Object.Kind == string(config.WorkloadGroup) {
				return nil, errors.New(p.String())
			}
		}
		if object != nil && object.Kind == config.WorkloadGroup && (o.Name == "" || o.Name == object.Name) {
			found = append(found, object)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("-f %s: it holds %d WorkloadGroups; say which one with --name", o.File, len(found))
	case o.Name != "":
		return nil, fmt.Errorf("-f %s: it holds no valid WorkloadGroup %q", o.File, o.Name)
	}
	return nil, fmt.Errorf("-f %s: it holds no valid WorkloadGroup", o.File)
}

func (m *machine) checkWho() error {
	var errs []error
	if m.name == "" {
		errs = append(errs, errors.New("who the workload is: name a WorkloadGroup's file with -f, or --name and --namespace"))
	}
	if m.namespace == "" {
		errs = append(errs, errors.New("--namespace: missing"))
	}
	account := m.template.GetServiceAccount()
	if m.AutoRegister && m.File != "" && m.Account != "" && m.Account != cmp.Or(account, "default") {
		errs = append(errs, fmt.Errorf("--serviceAccount: %q; with --autoregister leave it out, or give %q, the group's",
			m.Account, cmp.Or(account, "default")))
	}
	if m.Account != "" {
		account = m.Account
	}
	if account == "" {
		account = "default"
	}
	var err error
	if strings.HasPrefix(account, "spiffe://") {
		m.id, err = identity.Parse(account)
	} else if m.namespace != "" {
		m.id, err = identity.New(m.TrustDomain, m.namespace, account)
	}
	return errors.Join(append(errs, err)...)
}

func (m *machine) checkWhere() error {
	var errs []error
	if m.Discovery == "" {
		m.Discovery = defaultDiscovery
		if m.IngressIP == "" {
			errs = append(errs,
				errors.New("where the control plane is: give its host:port with --discoveryAddress, or its address with --ingressIP"))
		}
	}
	several := strings.Split(m.Discovery, ",")
	for _, one := range several {
		host, port, err := net.SplitHostPort(one)
		if err != nil || host == "" || port == "" {
			errs = append(errs,
				fmt.Errorf("--discoveryAddress: %q; want host:port, as %s; several with commas between", one, defaultDiscovery))
		}
		m.discoveryHost = host
	}
	if m.IngressIP != "" && len(several) > 1 {
		errs = append(errs, errors.New("--ingressIP: the address of one control plane; --discoveryAddress names several, so leave it out"))
	}
	for _, f := range []struct{ flag, address string }{{"--ingressIP", m.IngressIP}, {"--address", m.Address}} {
		if _, err := netip.ParseAddr(f.address); f.address != "" && err != nil {
			errs = append(errs, fmt.Errorf("%s: %q is not an IP address", f.flag, f.address))
		}
	}
	if _, err := netip.ParseAddr(m.discoveryHost); m.IngressIP != "" && err == nil {
		errs = append(errs,
			fmt.Errorf("--ingressIP: the control plane is at an address already, %s; leave one of the two out", m.Discovery))
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// plain matches values that mean the same in a unit, in a file of variables and in a shell.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:@,*-]*$`)

func (m *machine) checkMachine() error {
	var errs []error
	if m.Output == "" {
		errs = append(errs, errors.New("--output: missing; name the folder to write"))
	}
	for _, p := range [][2]string{{"--directory", m.Directory}, {"--agent", m.Agent}, {"--envoy", m.Envoy}} {
		if !path.IsAbs(p[1]) || !plain.MatchString(p[1]) {
			errs = append(errs, fmt.Errorf("%s: %q; want an absolute path of letters, digits and _./:@,-", p[0], p[1]))
		}
	}
	if m.User == "" || !plain.MatchString(m.User) {
		errs = append(errs, fmt.Errorf("--user: %q is not a user's name", m.User))
	}
	if !slices.Contains([]string{"REDIRECT", "TPROXY", "NONE"}, m.Interception) {
		errs = append(errs, fmt.Errorf("--interception: %q; want REDIRECT, TPROXY or NONE", m.Interception))
	}
	return errors.Join(errs...)
}
