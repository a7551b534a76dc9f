package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// These addresses are those in examples/bookinfo/rules. Ports that are in use are replaced.
const (
	productpageIn  = "127.0.0.11"
	productpageOut = "127.0.0.111"
	reviewsV1      = "127.0.0.31"
	reviewsV2In    = "127.0.0.32"
	reviewsV2Out   = "127.0.0.132"
	reviewsV3      = "127.0.0.33"
	ratingsSteady  = "127.0.0.41"
	ratingsFlaky   = "127.0.0.42"
	local          = "127.0.0.1"
)

// serviceAddresses all serve on the service port.
var serviceAddresses = [...]string{
	productpageIn,
	productpageOut,
	reviewsV1,
	reviewsV2In,
	reviewsV2Out,
	reviewsV3,
	ratingsSteady,
	ratingsFlaky,
	reviewsSecond,
}

// ports are those that this run uses.
type ports struct {
	service, gateway, productpage, reviewsV2 int    // written in the rules
	grpc, secure, http, monitoring           int    // pilot-discovery's
	admin, status                            [3]int // of each proxy: Envoy's administration, and the agent's own port
	consul                                   [3]int // HTTP, which registries.yaml names too; servers; gossip
}

// pickPorts keeps the ports that the rules name where they are free, and takes others where not.
// Each is free now and for long enough: nothing but this demo is expected to take ports on these addresses.
func pickPorts() (ports, error) {
	var p ports
	var held []net.Listener
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	take := func(port int, addresses ...string) (int, error) {
		got, listeners, err := freePort(port, addresses)
		held = append(held, listeners...)
		return got, err
	}
	var errs [8]error
	p.service, errs[0] = take(9080, serviceAddresses[:]...)
	p.gateway, errs[1] = take(8080, local)
	p.productpage, errs[2] = take(9081, local)
	p.reviewsV2, errs[3] = take(9082, local)
	p.grpc, errs[4] = take(0, local)
	p.http, errs[5] = take(0, local)
	p.monitoring, errs[6] = take(0, local)
	p.secure, errs[7] = take(0, local)
	err := errors.Join(errs[:]...)
	for i := range p.admin {
		var failed error
		p.admin[i], failed = take(0, local)
		err = errors.Join(err, failed)
		p.status[i], failed = take(0, proxyAddresses[i])
		err = errors.Join(err, failed)
	}
	for i := range p.consul {
		var failed error
		p.consul[i], failed = take(0, local)
		err = errors.Join(err, failed)
	}
	return p, err
}

// freePort finds a port that is free on every address: the wanted one, else any below those that the system takes for connections, which
// begin at 32768: until somebody listens there, a connection could have it. The listeners hold it until they are closed.
func freePort(wanted int, addresses []string) (int, []net.Listener, error) {
	var last error
	for try := range 50 {
		if try > 0 || wanted == 0 {
			wanted = 20000 + rand.IntN(12000)
		}
		var port int
		var held []net.Listener
		if port, held, last = holdPort(wanted, addresses); last == nil {
			return port, held, nil
		}
	}
	return 0, nil, fmt.Errorf("find a free port on %v: %w", addresses, last)
}

func holdPort(port int, addresses []string) (int, []net.Listener, error) {
	var held []net.Listener
	for _, a := range addresses {
		l, err := net.Listen("tcp", at(a, port))
		if err != nil {
			for _, h := range held {
				h.Close()
			}
			return 0, nil, err
		}
		held = append(held, l)
		port = l.Addr().(*net.TCPAddr).Port
	}
	return port, held, nil
}

func at(address string, port int) string { return net.JoinHostPort(address, strconv.Itoa(port)) }

// number is a port as the rules write it: a word of its own.
var number = regexp.MustCompile(`\b\d{4}\b`)

// rewrite replaces the ports that the rules name by those of this run.
func (p ports) rewrite(rules []byte) []byte {
	by := map[string]int{"9080": p.service, "8080": p.gateway, "9081": p.productpage, "9082": p.reviewsV2, "8500": p.consul[0]}
	return number.ReplaceAllFunc(rules, func(found []byte) []byte {
		if port, ok := by[string(found)]; ok {
			return strconv.AppendInt(nil, int64(port), 10)
		}
		return found
	})
}

// copyRules puts the rules, with this run's ports in them, into a folder of their own.
func (p ports) copyRules(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return fmt.Errorf("copy the rules: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("copy the rules: none in %s", from)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(file)), p.rewrite(content), 0o644)
		}
		if err != nil {
			return fmt.Errorf("copy the rules: %w", err)
		}
	}
	return nil
}
