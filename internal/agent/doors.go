package agent

import (
	"fmt"
	"os"
	"path/filepath"

	"fairway/internal/agent/admin"
	"fairway/internal/agent/epoch"
	"fairway/internal/agent/peer"
	"fairway/internal/agent/status"
	"fairway/internal/agent/token"
	"fairway/internal/envoy/bootstrap"
	"fairway/internal/identity/safefile"
)

// What is derived from the agent's token: where Envoy opens its administration, where the agent moves it to, and what
// applications may show to end the proxy.
const (
	purposeAdmin = "administration"
	purposeMoved = "administration, moved"
	purposeQuit  = "quit"
)

// lock gives the options what tells the agent's own Envoy from strangers that reach its sockets: the token, and an
// administration that cannot be found without it.
func (o *Options) lock() (token.Folder, error) {
	t, folder, err := token.Open(o.ConfigDir)
	if err != nil {
		return folder, usage("%w", err)
	}
	o.Bootstrap.Token = string(t)
	if o.CustomConfig == "" {
		o.Bootstrap.AdminSocket = filepath.Join(o.ConfigDir, t.Derive(purposeAdmin))
		o.Bootstrap.AdminMoved = filepath.Join(o.ConfigDir, t.Derive(purposeMoved))
		o.Bootstrap.DrainFile = filepath.Join(o.ConfigDir, drainFile)
	}
	return folder, nil
}

// drainFile is the name of bootstrap.Params.DrainFile in the agent's folder.
const drainFile = "drain"

// letIdleGo tells every Envoy of the agent whether connections without requests are to go.
func (o Options) letIdleGo(yes bool) error {
	if o.Bootstrap.DrainFile == "" {
		return nil
	}
	text := "0.0"
	if yes {
		text = "1.0"
	}
	return safefile.Write(o.Bootstrap.DrainFile, []byte(text), 0o600)
}

// unlock takes back what lock left on the disk. No Envoy runs any more.
func (a *agent) unlock() {
	for _, path := range []string{a.o.Bootstrap.AdminSocket, a.o.Bootstrap.AdminMoved} {
		if path != "" {
			os.Remove(path)
		}
	}
	a.folder.Close()
}

// hidden are the texts that no page of the agent's shows.
func (o Options) hidden() []string {
	out := []string{o.Bootstrap.Token}
	for _, path := range []string{o.Bootstrap.AdminSocket, o.Bootstrap.AdminMoved} {
		if path != "" {
			out = append(out, filepath.Base(path))
		}
	}
	return out
}

// administer makes the client of Envoy's administration; where that is a socket, the agent answers at the port in its place.
func (a *agent) administer() {
	p := a.o.Bootstrap
	switch {
	case p.AdminSocket == "" && a.at.Port != 0:
		a.admin = admin.New(a.at.String())
	case p.AdminSocket != "":
		a.admin = admin.AtSocket(p.AdminSocket, p.AdminMoved)
	}
}

// openFront opens the port at which the agent answers for Envoy's administration.
func (a *agent) openFront() (err error) {
	if a.o.Bootstrap.AdminSocket == "" || a.at.Port == 0 {
		return nil
	}
	gate := a.gate()
	gate.Own = true
	a.front, err = admin.ListenFront(a.at.String(), a.admin, gate, a.o.hidden(), a.log)
	if err != nil {
		return usage("the agent cannot answer for Envoy's administration on %s: %w; choose another port with --adminPort", a.at, err)
	}
	return nil
}

// gate says who may ask the agent's ports what.
func (a *agent) gate() *peer.Gate {
	return &peer.Gate{
		Token:   token.Token(a.o.Bootstrap.Token),
		Envoys:  func() []int { return pids(a.envoys.State()) },
		Program: func() string { return a.envoys.Plan().Binary },
	}
}

func pids(s epoch.State) (out []int) {
	for _, p := range []*epoch.Process{s.Serving, s.Starting, s.Draining} {
		if p != nil {
			out = append(out, p.Pid)
		}
	}
	return out
}

// quitToken writes the secret by which an application may end its proxy where it was asked for (QUIT_TOKEN_FILE), and gives it; else none.
func (a *agent) quitToken() (token.Token, error) {
	path := a.o.Status.QuitTokenFile
	if path == "" {
		return "", nil
	}
	t := token.Token(a.o.Bootstrap.Token).Derive(purposeQuit)
	next := path + ".new"
	os.Remove(next)
	if err := os.WriteFile(next, []byte(t+"\n"), 0o644); err != nil {
		return "", usage("QUIT_TOKEN_FILE: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return "", usage("QUIT_TOKEN_FILE: %w", err)
	}
	return token.Token(t), nil
}

// showBootstrap is /debug/bootstrap: the serving Envoy's, without what proves that it is the agent's.
func (a *agent) showBootstrap() []byte {
	return []byte(admin.Veil(string(a.envoys.Plan().Bootstrap), a.o.hidden()))
}

// guard completes what the status port does by who may have it done.
func (a *agent) guard(actions *status.Actions) (err error) {
	actions.Gate = a.gate()
	actions.QuitToken, err = a.quitToken()
	return err
}

// adminName is how logs and pages call the administration.
func adminName(p bootstrap.Params, at bootstrap.HostPort) string {
	if p.AdminSocket == "" {
		return at.String()
	}
	return fmt.Sprintf("%s (answered by the agent)", at)
}
