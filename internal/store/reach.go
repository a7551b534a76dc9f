package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/printable"
	"fairway/internal/servers"
	"fairway/internal/weigh"
)

// Reach tells how to call etcd. Its URLs are those of the cluster's members, http://HOST:2379 or https://HOST:2379, all of one
// kind: if one fails, the others are tried. Username and PasswordFile are for a cluster with authentication; TokenFile is for one
// that accepts tokens from another issuer.
type Reach struct{ servers.Reach }

// Time limits of calls, and size limits of requests and answers.
const (
	// Within is how long etcd may take to answer one question.
	Within = 10 * time.Second

	defaultAnswer    = 64 << 20
	sendMost         = 8 << 20          // bytes; etcd accepts 1.5 MiB by default
	keepalive        = 10 * time.Second // by default etcd allows 5
	keepaliveTimeout = 5 * time.Second
)

// Validate returns an error for the wrong fields, with what to write instead.
func (r Reach) Validate() error {
	if err := r.Reach.Validate(); err != nil {
		return err
	}
	secure := 0
	for i, one := range r.URLs {
		u, err := url.Parse(one)
		switch {
		case err != nil || u.Port() == "" || strings.Trim(u.Path, "/") != "":
			return fmt.Errorf("urls[%d]: %q: want https://HOST:PORT or http://HOST:PORT", i, printable.Text(one, printable.Short))
		case u.Scheme == "https":
			secure++
		case (r.Username != "" || r.TokenFile != "") && !local(u.Hostname()):
			return fmt.Errorf("urls[%d]: %s is asked in plaintext, where others could read the password: want https://",
				i, printable.Text(one, printable.Short))
		}
	}
	switch {
	case secure > 0 && secure < len(r.URLs):
		return errors.New("urls: want all of them to be https://, or all http://")
	case secure == 0 && (r.CAFile != "" || r.CertFile != "" || r.ServerName != "" || r.InsecureSkipVerify):
		return errors.New("caFile, certFile, keyFile, serverName, insecureSkipVerify: they are for urls that are https://")
	case (r.Username == "") != (r.PasswordFile == ""):
		return errors.New("username, passwordFile: want both or neither")
	case !printable.Is(r.Username, printable.Short):
		return errors.New("username: want one that can be printed")
	}
	return nil
}

// local reports whether a host can be none but this machine.
func local(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// Answer is how many bytes one answer may have.
func (r Reach) Answer() int {
	if r.MaxAnswer == 0 {
		return defaultAnswer
	}
	return int(min(r.MaxAnswer<<20, math.MaxInt32))
}

// Files are those that Open reads: when one changes, a client has to be opened anew.
func (r Reach) Files() []string {
	return slices.DeleteFunc([]string{r.CAFile, r.CertFile, r.KeyFile, r.PasswordFile, r.TokenFile}, func(f string) bool { return f == "" })
}

// Open reads the files and returns a client, which is authenticated if there is a password. It makes no other call, so a member
// that is away shows at the first question. The caller closes the client.
func (r Reach) Open(ctx context.Context) (*clientv3.Client, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	c := clientv3.Config{
		Endpoints: r.URLs, Context: ctx, DialTimeout: Within,
		DialKeepAliveTime: keepalive, DialKeepAliveTimeout: keepaliveTimeout, PermitWithoutStream: true,
		MaxCallSendMsgSize: min(sendMost, r.Answer()), MaxCallRecvMsgSize: r.Answer(),
		MaxUnaryRetries: 2, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(prompt), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(weigh.Codec())),
		},
	}
	if strings.HasPrefix(r.URLs[0], "https://") {
		config, err := r.TLS("") // each member's name is its URL's
		if err != nil {
			return nil, err
		}
		c.TLS = config
		if r.ServerName != "" { // the client's resolver says another one of each address, which goes before the configuration's
			c.DialOptions = append(c.DialOptions, grpc.WithAuthority(r.ServerName))
		}
	}
	token, err := r.Token()
	if err != nil {
		return nil, err
	}
	password, err := r.Password()
	if err != nil {
		return nil, err
	}
	c.Token, c.Username, c.Password = token, r.Username, password
	client, err := clientv3.New(c)
	if err != nil {
		return nil, r.Explain(err, "")
	}
	return client, nil
}

// prompt lets a call fail with the reason if no member can be reached. By default the client waits until the call's time is over.
func prompt(ctx context.Context, method string, q, a any, c *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption) error {
	return next(ctx, method, q, a, c, append(slices.Clone(o), grpc.WaitForReady(false))...)
}

// Name is the members that are asked, fit to be shown.
func (r Reach) Name() string {
	const most = 3
	names := r.URLs
	if len(names) > most {
		names = names[:most]
	}
	text := printable.Text(strings.Join(names, ", "), printable.Long)
	if len(r.URLs) > most {
		text += " and others"
	}
	return "etcd at " + text
}

// Explain adds to an error of a call what an operator has to do about it. root is the key or prefix that was asked for; empty:
// nothing yet. errors.Is still finds the original error.
func (r Reach) Explain(err error, root string) error {
	if err == nil {
		return nil
	}
	return explained{r.Name() + ": " + r.words(err, root), err}
}

type explained struct {
	text string
	error
}

func (e explained) Error() string { return e.text }
func (e explained) Unwrap() error { return e.error }

func (r Reach) words(err error, root string) string {
	text := err.Error()
	if s, ok := status.FromError(err); ok {
		text = s.Message()
	}
	text = strings.TrimPrefix(text, "etcdserver: ")
	is := func(known error) bool {
		return errors.Is(rpctypes.Error(err), known) || strings.Contains(err.Error(), known.Error())
	}
	_, dial := errors.AsType[*net.OpError](err)
	switch {
	case is(rpctypes.ErrAuthFailed):
		return "it refuses user " + r.Username + " or the password in " + r.PasswordFile
	case is(rpctypes.ErrPermissionDenied) && r.Username == "", is(rpctypes.ErrUserEmpty):
		return "it wants a user and a password: give username and passwordFile"
	case is(rpctypes.ErrPermissionDenied):
		return fmt.Sprintf("user %s may not have %s: grant a role of the user's: "+
			"etcdctl role grant-permission ROLE read --prefix=true %s", r.Username, root, root)
	case is(rpctypes.ErrInvalidAuthToken), is(rpctypes.ErrAuthOldRevision):
		return "it does not know the token that it gave any more"
	case is(rpctypes.ErrNoLeader):
		return "its members have no leader: most of them are away"
	case status.Code(err) == codes.ResourceExhausted && strings.Contains(text, "larger than max"):
		return fmt.Sprintf("its answer is larger than %d MiB (maxAnswerMiB)", r.Answer()>>20)
	case errors.Is(err, context.DeadlineExceeded), status.Code(err) == codes.DeadlineExceeded:
		return "it does not answer: " + printable.Text(text, printable.Long)
	case dial, status.Code(err) == codes.Unavailable:
		return "it cannot be reached: " + printable.Text(text, printable.Long)
	}
	return printable.Text(text, printable.Long)
}
