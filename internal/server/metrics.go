package server

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kimbap-run/kimbap/runtime"
)

// Gauges are what is asked for when metrics are read.
type Gauges struct {
	AuditLag    func() float64 // records that are not yet in every sink
	VaultLocked func() bool
}

// Metrics counts what went through the pipeline. Its labels are closed lists:
// nothing that a caller writes becomes one, and no token has a series of its own.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	flying   prometheus.Gauge
	found    sync.Map // ending → series: a look-up by labels costs more than the counting
}

// ending is how a request ended, in the words of the labels.
type ending struct {
	surface  runtime.Surface
	decision runtime.Effect
	code     runtime.Code
}

// series are where a request that ended so is counted.
type series struct {
	requests prometheus.Counter
	duration prometheus.Observer
}

// NewMetrics makes a registry of its own.
func NewMetrics(g Gauges) (*Metrics, error) {
	if g.AuditLag == nil || g.VaultLocked == nil {
		return nil, errors.New("server: Gauges.AuditLag and VaultLocked are required")
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kimbap_requests_total", Help: "Requests by what policy said, by entrance and by how they ended (ok, or an error code).",
		}, []string{"decision", "surface", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kimbap_request_duration_seconds", Help: "From a request's arrival to the last byte of its answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"surface"}),
		flying: prometheus.NewGauge(prometheus.GaugeOpts{Name: "kimbap_requests_in_flight", Help: "Requests that are not answered yet."}),
	}
	locked := func() float64 {
		if g.VaultLocked() {
			return 1
		}
		return 0
	}
	for _, c := range []prometheus.Collector{
		m.requests, m.duration, m.flying,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "kimbap_audit_lag_records", Help: "Records that a sink of the trail still has to take."}, g.AuditLag),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "kimbap_vault_locked", Help: "1 while stored credentials cannot be opened."}, locked),
	} {
		if err := m.registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Begin counts a request that has come in.
func (m *Metrics) Begin() { m.flying.Inc() }

// End counts one that was answered.
func (m *Metrics) End(surface runtime.Surface, decision runtime.Effect, code runtime.Code, took time.Duration) {
	m.flying.Dec()
	e := ending{surface, decision, code}
	have, ok := m.found.Load(e)
	if !ok {
		have, _ = m.found.LoadOrStore(e, m.seriesOf(e))
	}
	s := have.(series)
	s.requests.Inc()
	s.duration.Observe(took.Seconds())
}

// seriesOf finds the series of an ending.
func (m *Metrics) seriesOf(e ending) series {
	said, how := string(e.decision), string(e.code)
	if said == "" {
		said = "none" // it was refused before policy was asked
	}
	if how == "" {
		how = "ok"
	}
	return series{m.requests.WithLabelValues(said, string(e.surface), how), m.duration.WithLabelValues(string(e.surface))}
}

// Handler answers in Prometheus' text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// counts are of all tenants together, and so for operators of the home's own alone.
func (s *Server) counts(w http.ResponseWriter, r *http.Request, a visit) error {
	if a.who.Tenant != runtime.DefaultTenant {
		return &runtime.Error{
			Code: runtime.CodeForbidden, Reason: runtime.ReasonNotOperator, Msg: "the counts are of all tenants together",
			Hint: "an operator of the tenant " + string(runtime.DefaultTenant) + " reads them",
		}
	}
	s.o.Metrics.Handler().ServeHTTP(w, r)
	return nil
}

// NewAdmin is the operator's own listener, beside a proxy or an API: metrics and
// whether requests can be served, and nothing that changes anything.
func NewAdmin(o Options) (*Server, error) {
	if o.Metrics == nil || o.Health == nil {
		return nil, errors.New("server: Options.Metrics and Health are required")
	}
	o.RequireToken = true // so that Host is looked at
	s := newServer(o)
	s.pages = "there are /readyz and /metrics, for GET"
	r := chi.NewRouter()
	r.Use(s.guard)
	r.NotFound(s.handle(func(http.ResponseWriter, *http.Request) error { return s.noPage() }))
	r.MethodNotAllowed(s.handle(s.wrongMethod))
	r.Get("/readyz", s.health)
	r.Method(http.MethodGet, "/metrics", o.Metrics.Handler())
	s.listen(r)
	return s, nil
}
