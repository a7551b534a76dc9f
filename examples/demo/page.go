package main

import (
	"context"
	"encoding/json"
	"fmt"
)

// page is what the bookshop answers.
type page struct {
	Service string `json:"service"`
	Version string `json:"version"`
	Status  int    `json:"status"`
	Error   string `json:"error"`
	Reviews *page  `json:"reviews"`
	Ratings *page  `json:"ratings"`
}

// visit asks for the product page through the gateway.
func (w *world) visit(ctx context.Context, headers map[string]string) (page, error) {
	var p page
	body, status, err := fetch(ctx, w.http(w.ports.gateway, "/productpage"), headers)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return p, fmt.Errorf("status %d: %.200s", status, body)
	}
	return p, nil
}

// reviews names the version of reviews that served the page; empty where there were none.
func (p page) reviews() string {
	if p.Reviews == nil || p.Reviews.Status != 200 {
		return ""
	}
	return p.Reviews.Version
}

// ratings is the status that reviews got for its ratings; 0 where it asked for none.
func (p page) ratings() int {
	if p.Reviews == nil || p.Reviews.Ratings == nil {
		return 0
	}
	return p.Reviews.Ratings.Status
}

// visits makes n visits one after the other and counts what came, by key.
func (w *world) visits(ctx context.Context, n int, headers map[string]string, key func(page) string) (map[string]int, error) {
	counts := map[string]int{}
	for range n {
		p, err := w.visit(ctx, headers)
		if err != nil {
			return nil, err
		}
		counts[key(p)]++
	}
	return counts, nil
}
