package kubelet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"fairway/test/platform/kube/cluster"
)

// api is the API server, as the administrator sees it.
type api struct {
	host string
	http *http.Client
}

func newAPI(t testing.TB, c *cluster.Cluster) api {
	t.Helper()
	config := c.Admin()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return api{config.Host, client}
}

// errGone says that an object is not there, or is another one by now.
var errGone = errors.New("it is gone")

const mergePatch = "application/merge-patch+json"

// open sends a request and returns the answer's body, which the caller closes.
func (a api) open(ctx context.Context, method, path, kind string, in any) (io.ReadCloser, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, a.host+path, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", kind)
	request.Header.Set("Accept", "application/json")
	response, err := a.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < 300 {
		return response.Body, nil
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1000)) // the code says enough
	err = fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	if response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusConflict {
		err = fmt.Errorf("%w: %w", errGone, err)
	}
	return nil, err
}

// do sends one request and decodes the answer into out, unless that is nil.
func (a api) do(ctx context.Context, method, path, kind string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body, err := a.open(ctx, method, path, kind, in)
	if err != nil {
		return err
	}
	defer body.Close()
	if out == nil {
		out = new(json.RawMessage)
	}
	return json.NewDecoder(body).Decode(out)
}

func (a api) get(ctx context.Context, path string, out any) error {
	return a.do(ctx, http.MethodGet, path, "", nil, out)
}
