package proxy

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"fairway/internal/agent/admin"
	"fairway/internal/agent/epoch"
	"fairway/internal/agent/peer"
	"fairway/internal/agent/settings"
	"fairway/internal/agent/status"
	"fairway/internal/agent/token"
	"fairway/internal/envoy/bootstrap"
)

// The purposes of secrets that are derived from the agent's token: where Envoy opens its administration, where the agent moves it,
// and what an application may show to end the proxy.
const (
	purposeAdmin = "administration"
	purposeMoved = "administration, moved"
	purposeQuit  = "quit"
)

// openAccess adds to the options what tells the agent's own Envoy from strangers that reach its sockets: the token, and an
// administration that cannot be found without it.
func openAccess(o *settings.Options) (token.Folder, error) {
	t, folder, err := token.Open(o.ConfigDir)
	if err != nil {
		return folder, settings.Usage("%w", err)
	}
	o.Bootstrap.Token = string(t)
	if o.CustomConfig == "" {
		o.Bootstrap.AdminSocket = filepath.Join(o.ConfigDir, t.Derive(purposeAdmin))
		o.Bootstrap.AdminMoved = filepath.Join(o.ConfigDir, t.Derive(purposeMoved))
		o.Bootstrap.DrainFile = filepath.Join(o.ConfigDir, drainFile)
	}
	return folder, nil
}

// closeAccess removes what openAccess left on the disk. No Envoy runs any more.
func (a *agent) closeAccess() {
	for _, path := range []string{a.o.Bootstrap.AdminSocket, a.o.Bootstrap.AdminMoved} {
		if path != "" {
			os.Remove(path)
		}
	}
	a.folder.Close()
}

// redacted returns the texts that no page of the agent's shows.
func (a *agent) redacted() []string {
	out := []string{a.o.Bootstrap.Token}
	for _, path := range []string{a.o.Bootstrap.AdminSocket, a.o.Bootstrap.AdminMoved} {
		if path != "" {
			out = append(out, filepath.Base(path))
		}
	}
	return out
}

// connectAdmin makes the client of Envoy's administration; if that is a socket, the agent answers at the port instead.
func (a *agent) connectAdmin() {
	p := a.o.Bootstrap
	switch {
	case p.AdminSocket == "" && a.at.Port != 0:
		a.admin = admin.New(a.at.String())
	case p.AdminSocket != "":
		a.admin = admin.NewAtSocket(p.AdminSocket, p.AdminMoved)
	}
}

// openFront opens the port where the agent answers for Envoy's administration.
func (a *agent) openFront() (err error) {
	if a.o.Bootstrap.AdminSocket == "" || a.at.Port == 0 {
		return nil
	}
	gate := a.gate()
	gate.Own = true
	a.front, err = admin.ListenFront(a.at.String(), a.admin, admin.Access{Gate: gate, Secrets: a.redacted(), Levels: a.levels()}, a.log)
	if err != nil {
		return settings.Usage("the agent cannot answer for Envoy's administration on %s: %w; choose another port with --adminPort",
			a.at, err)
	}
	return nil
}

// levels returns the page of the levels of the agent's log; nil: there is none. A change is logged.
func (a *agent) levels() http.HandlerFunc {
	if a.o.Levels == nil {
		return nil
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if a.o.Levels.Answer(w, r) {
			a.log.Warn("the levels of this log were changed", "differ", a.o.Levels.String())
		}
	}
}

// gate returns the access rules of the agent's ports.
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

// quitToken writes the token that lets an application end its proxy to QUIT_TOKEN_FILE, if that is set, and returns it; else "".
func (a *agent) quitToken() (token.Token, error) {
	path := a.o.Status.QuitTokenFile
	if path == "" {
		return "", nil
	}
	t := token.Token(a.o.Bootstrap.Token).Derive(purposeQuit)
	next := path + ".new"
	os.Remove(next)
	if err := os.WriteFile(next, []byte(t+"\n"), 0o644); err != nil {
		return "", settings.Usage("QUIT_TOKEN_FILE: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return "", settings.Usage("QUIT_TOKEN_FILE: %w", err)
	}
	return token.Token(t), nil
}

// showBootstrap returns the page /debug/bootstrap: the serving Envoy's bootstrap, without the agent's secrets.
func (a *agent) showBootstrap() []byte {
	return []byte(admin.Redact(string(a.envoys.Plan().Bootstrap), a.redacted()))
}

// restrict adds the access rules to the actions of the status port.
func (a *agent) restrict(actions *status.Actions) (err error) {
	actions.Gate = a.gate()
	actions.QuitToken, err = a.quitToken()
	return err
}

// adminName returns the name of the administration in logs and pages.
func adminName(p bootstrap.Params, at bootstrap.HostPort) string {
	if p.AdminSocket == "" {
		return at.String()
	}
	return fmt.Sprintf("%s (answered by the agent)", at)
}
