package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"

	"fairway/internal/identity/safefile"
)

// Environment is everything that Resolve reads besides flags.
type Environment struct {
	Vars      map[string]string
	Hostname  string
	Addresses []string // this machine's, without loopback and link-local ones
	// LabelsFile and AnnotationsFile hold the workload's, as Kubernetes' downward API writes them. A missing file counts as empty.
	LabelsFile, AnnotationsFile string
	// Machine is this machine's file system, to read limits from. Nil: there are none.
	Machine fs.FS
}

// or returns the value of a flag, or else of a variable, and the name of the one that is used.
func (e Environment) or(flag, name, variable string) (said, from string) {
	if flag != "" {
		return flag, name
	}
	return e.Vars[variable], variable
}

// ThisEnvironment reads the environment of this process, at the places where Istio's templates mount things.
func ThisEnvironment() (Environment, error) {
	host, err := os.Hostname()
	if err != nil {
		return Environment{}, fmt.Errorf("read the host's name: %w", err)
	}
	addresses, err := machineAddresses()
	if err != nil {
		return Environment{}, err
	}
	vars := map[string]string{}
	for _, pair := range os.Environ() {
		k, v, _ := strings.Cut(pair, "=")
		vars[k] = v
	}
	return Environment{
		Vars: vars, Hostname: host, Addresses: addresses,
		LabelsFile: "./etc/istio/pod/labels", AnnotationsFile: "./etc/istio/pod/annotations",
		Machine: os.DirFS("/"),
	}, nil
}

func machineAddresses() ([]string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list this machine's addresses: %w", err)
	}
	var out []string
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && prefix.Addr().IsGlobalUnicast() {
			out = append(out, prefix.Addr().String())
		}
	}
	return out, nil
}

// addresses returns the workload's own: INSTANCE_IP first, then the machine's. An INSTANCE_IP on loopback is the only one, because
// several workloads may share the machine then, and none of them is reached at its addresses.
func (e Environment) addresses() ([]string, error) {
	named := e.Vars["INSTANCE_IP"]
	if named == "" {
		if len(e.Addresses) == 0 {
			return []string{"127.0.0.1"}, nil
		}
		return e.Addresses, nil
	}
	ip, err := netip.ParseAddr(named)
	if err != nil {
		return nil, Usage("INSTANCE_IP: %w", err)
	}
	out := []string{ip.String()}
	if ip.IsLoopback() {
		return out, nil
	}
	for _, a := range e.Addresses {
		if a != out[0] {
			out = append(out, a)
		}
	}
	return out, nil
}

// longestPairs bounds a downward API file, in bytes: Kubernetes has at most 256 KiB of annotations, which quoting makes
// four times as long at most.
const longestPairs = 4 << 20

// readPairs reads a downward API file: lines of key="value", the value quoted as Go quotes.
func readPairs(path string) (map[string]any, error) {
	if path == "" {
		return nil, nil
	}
	content, err := safefile.Read(path, longestPairs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, Usage("read the workload's labels and annotations: %w", err)
	}
	return parsePairs(path, string(content))
}
