package folder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fairway/internal/agent/token/shown"
	"fairway/internal/disk"
	"fairway/internal/identity/safefile"
)

// Variable names the folder in place of the default.
const Variable = "FAIRWAY_DEV"

// Names in the folder.
const (
	planeFile  = "plane.json"
	socketFile = "join"
	caDir      = "ca"
	agentsDir  = "agents"
)

// mostPlane bounds plane.json, in bytes.
const mostPlane = 64 << 10

// Folder is a folder that only its owner can reach.
type Folder string

// Default returns the folder that $FAIRWAY_DEV names, else the user's own among the temporary files.
func Default() Folder {
	if named := os.Getenv(Variable); named != "" {
		return Folder(named)
	}
	if run := os.Getenv("XDG_RUNTIME_DIR"); run != "" {
		return Folder(filepath.Join(run, "fairway-dev"))
	}
	return Folder(filepath.Join(os.TempDir(), "fairway-dev-"+strconv.Itoa(os.Getuid())))
}

// Authority is the folder of the self-made root and the join tokens.
func (f Folder) Authority() string { return filepath.Join(string(f), caDir) }

// Agent is the folder of a workload's agent.
func (f Folder) Agent(workload string) string { return filepath.Join(string(f), agentsDir, workload) }

// adminFile is the file in a workload's folder that says where its agent answers for Envoy's administration.
const adminFile = "admin"

// AnnounceAdmin writes the host:port where a workload's agent answers for Envoy's administration.
func (f Folder) AnnounceAdmin(workload, address string) error {
	return safefile.Write(filepath.Join(f.Agent(workload), adminFile), []byte(address), 0o600)
}

// Admin returns what AnnounceAdmin wrote.
func (f Folder) Admin(workload string) (string, error) {
	if workload != filepath.Base(workload) || workload == ".." || workload == "." {
		return "", fmt.Errorf("%q is no workload of this machine", workload)
	}
	if err := f.Check(); err != nil {
		return "", err
	}
	text, err := safefile.Read(filepath.Join(f.Agent(workload), adminFile), mostPlane)
	return string(text), err
}

// Token returns the token that a workload's agent asks for before it changes something.
func (f Folder) Token(workload string) (string, error) {
	if _, err := f.Admin(workload); err != nil {
		return "", err
	}
	text, err := safefile.Read(filepath.Join(f.Agent(workload), shown.File), mostPlane)
	return strings.TrimSpace(string(text)), err
}

func (f Folder) socket() string { return filepath.Join(string(f), socketFile) }

// Check fails if the folder is not one that only this user can reach: everything in it is trusted.
func (f Folder) Check() error {
	info, err := os.Lstat(string(f))
	if err != nil {
		return err
	}
	owner, ok := disk.Owner(info)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder; remove it, or name another with $%s", f, Variable)
	case !ok || owner != os.Getuid():
		return fmt.Errorf("%s is another user's; name a folder of your own with $%s", f, Variable)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s is open to other users (mode %o); close it with chmod 700, or name another with $%s",
			f, info.Mode().Perm(), Variable)
	}
	return nil
}

// make makes the folder, if there is none, and checks it.
func (f Folder) make() error {
	if err := os.MkdirAll(filepath.Dir(string(f)), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(string(f), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return f.Check()
}

// Plane says where the control plane of a folder is.
type Plane struct {
	PID   int    `json:"pid"`
	XDS   string `json:"xds"`   // host:port of certificates and xDS with TLS
	Pages string `json:"pages"` // host:port of readiness, metrics and debug pages
	Rules string `json:"rules"` // folder
}

// Open makes the folder of a control plane and listens on its socket. It fails if a control plane runs there already. The caller
// closes the listener, and then calls the function, which lets the next control plane in.
func (f Folder) Open() (net.Listener, func(), error) {
	if err := f.make(); err != nil {
		return nil, nil, fmt.Errorf("make the folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(string(f), "lock"), os.O_CREATE|os.O_RDWR|disk.NoFollow, 0o600)
	if err != nil {
		return nil, nil, err
	}
	if err := disk.Lock(lock, false); err != nil {
		lock.Close()
		running, _ := f.Plane()
		return nil, nil, fmt.Errorf("a control plane runs with folder %s already (process %d, rules of %s): stop it, or give this one "+
			"another folder with $%s", f, running.PID, running.Rules, Variable)
	}
	if err := os.Remove(f.socket()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		lock.Close()
		return nil, nil, err
	}
	listener, err := net.Listen("unix", f.socket())
	if err != nil {
		lock.Close()
		return nil, nil, fmt.Errorf("listen for workloads: %w", err)
	}
	return listener, func() {
		os.Remove(filepath.Join(string(f), planeFile))
		lock.Close()
	}, nil
}

// Write writes a file into the folder, and returns its path.
func (f Folder) Write(name, text string) (path string, err error) {
	path = filepath.Join(string(f), name)
	return path, safefile.Write(path, []byte(text), 0o600)
}

// Announce writes where the control plane is.
func (f Folder) Announce(p Plane) error {
	text, err := json.Marshal(p)
	if err == nil {
		_, err = f.Write(planeFile, string(text))
	}
	return err
}

// ErrNone says that no control plane runs with the folder.
var ErrNone = errors.New("no control plane of pilot-discovery dev runs")

// Plane returns the control plane of the folder. Without one the error is ErrNone.
func (f Folder) Plane() (p Plane, err error) {
	if err := f.Check(); errors.Is(err, fs.ErrNotExist) {
		return p, ErrNone
	} else if err != nil {
		return p, err
	}
	text, err := safefile.Read(filepath.Join(string(f), planeFile), mostPlane)
	if errors.Is(err, fs.ErrNotExist) {
		return p, ErrNone
	}
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return Plane{}, fmt.Errorf("read where the control plane is: %w", err)
	}
	return p, nil
}

// Running returns the control plane of the folder if it runs.
func (f Folder) Running(ctx context.Context) (Plane, bool) {
	p, err := f.Plane()
	if err != nil {
		return p, false
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", f.socket())
	if err != nil {
		return p, false
	}
	c.Close()
	return p, true
}

// FreePort returns a port of an address that nothing listens on, the wanted one if it can.
func FreePort(address string, wanted uint16) (uint16, error) {
	var errs []error
	for _, port := range slices.Compact([]uint16{wanted, 0}) {
		l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(int(port))))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		defer l.Close()
		return uint16(l.Addr().(*net.TCPAddr).Port), nil
	}
	return 0, errors.Join(errs...)
}
