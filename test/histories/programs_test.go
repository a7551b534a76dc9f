package histories

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	"fairway/internal/admin/page"
	"fairway/test/rig"
)

var discovery = rig.Program{Name: "pilot-discovery"}

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &discovery)) }

// TestPrograms: the same histories, over pilot-discovery as users run it; it is killed where it ends.
func TestPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("programs are started at every step")
	}
	shared := newPlanes(t)
	path := discovery.Path(t)
	hunt(t, hunting{usual: 30, fit: quietly}, func(t *testing.T, _ uint64) (*player, error) {
		folder, err := newFolder(t.TempDir())
		if err != nil {
			return nil, err
		}
		p := *shared
		p.folder = folder
		return &player{
			world: folder, clients: map[string]*client{}, said: map[string]saying{},
			start: func(ctx context.Context) (control, error) { return p.launch(ctx, path) },
		}, nil
	})
}

// quietly removes the reports of agents about applications: for half a minute after its start a program assumes that
// applications without a report are healthy.
func quietly(s script) script {
	var out script
	for _, st := range s {
		st = slices.DeleteFunc(slices.Clone(st), func(a action) bool { return a.Report != nil })
		for i := range st {
			if c := st[i].Connect; c != nil && c.Metadata[groupField] != "" {
				quiet := *c
				quiet.Metadata = nil // an entry of a group with a probe is one that is checked
				st[i].Connect = &quiet
			}
			for _, d := range []**document{&st[i].Put, &st[i].Copy} {
				if *d != nil {
					quiet := **d
					quiet.Text = strings.ReplaceAll(quiet.Text, "health-checks-enabled", "health-checks-left-out")
					*d = &quiet
				}
			}
		}
		if len(st) > 0 {
			out = append(out, st)
		}
	}
	return out
}

// program is a control plane in a process of its own.
type program struct {
	planes    *planes
	command   *exec.Cmd
	addresses map[string]string // grpc, secure, http
	exited    chan struct{}
}

// addressOf finds the addresses at which a program listens in its log.
var addressOf = regexp.MustCompile(`\b(grpc|secure|http)="?([0-9.]+:[0-9]+)`)

// launch returns once the program has read the folder, or the cluster.
func (p *planes) launch(ctx context.Context, path string) (control, error) {
	c := &program{planes: p, addresses: map[string]string{}, exited: make(chan struct{})}
	inputs := []string{"discovery", "--registries", "Kubernetes", "--kubeconfig", p.kube}
	if p.folder != nil {
		inputs = []string{"discovery", "--configDir", p.folder.rules()}
	}
	c.command = exec.Command(path, append(inputs, "--caStateDir", p.options.Identity.CA.State, "--grpcAddr",
		cmp.Or(p.grpc, "127.0.0.1:0"), "--secureGRPCAddr", "127.0.0.1:0", "--httpAddr", "127.0.0.1:0", "--httpsAddr", "",
		"--monitoringAddr", "", "--referenceGrace", "10ms", "--newStreamsPerSecond", "100000")...)
	if p.folder != nil {
		c.command.Dir = p.folder.dir
	}
	c.command.Args = append(c.command.Args, p.words...)
	c.command.Env = append(os.Environ(), p.variables...)
	c.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := c.command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := c.command.Start(); err != nil {
		return nil, err
	}
	synced := make(chan struct{})
	go func() {
		defer close(c.exited)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			line := lines.Text()
			switch {
			case strings.Contains(line, "msg=listening"):
				for _, found := range addressOf.FindAllStringSubmatch(line, -1) {
					c.addresses[found[1]] = found[2]
				}
			case strings.Contains(line, "msg=synced"):
				close(synced)
			}
		}
		_ = c.command.Wait() // it is killed
	}()
	select {
	case <-synced:
		return c, nil
	case <-c.exited:
		return nil, errors.New("pilot-discovery ended before it had read what there is")
	case <-ctx.Done():
		return nil, errors.Join(errors.New("pilot-discovery does not sync"), c.stop())
	}
}

func (c *program) stop() error {
	err := c.command.Process.Kill()
	<-c.exited
	return err
}

func (c *program) exact() bool { return false }

// problems name files as they are read, in whatever order; which they are is compared in one process.
func (c *program) problems() string { return "" }

func (c *program) dial(p *proxy) (string, credentials.TransportCredentials) {
	if p.Account == "" {
		return c.addresses["grpc"], nil
	}
	return c.addresses["secure"], credentials.NewTLS(&tls.Config{
		RootCAs:      c.planes.roots,
		ServerName:   "istiod.istio-system.svc",
		Certificates: []tls.Certificate{*c.planes.pairs[p.Namespace+"/"+p.Account]},
	})
}

// settle waits until the program calls every client synced. Whether it has read the latest changes is not known, so the caller compares
// again until the results agree.
func (c *program) settle(ctx context.Context, _ control, clients []*client) error {
	for {
		proxies, err := c.status(ctx)
		if err != nil {
			return err
		}
		late := slices.IndexFunc(clients, func(x *client) bool { return !slices.ContainsFunc(proxies, x.isCalledSynced) })
		if late < 0 {
			return nil
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s is not synced: %w; %v; %+v", clients[late].proxy.Name, ctx.Err(), clients[late].err(), proxies)
		}
	}
}

func (c *program) status(ctx context.Context) (out []page.ProxySync, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.addresses["http"]+"/debug/syncz", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return out, json.NewDecoder(response.Body).Decode(&out)
}

func (c *client) isCalledSynced(p page.ProxySync) bool {
	return p.ProxyID == c.Node.Id && p.Synced && !p.ConnectedAt.Before(c.since)
}
