//! Of the operator itself. None of it has the name of a cluster, so a fleet makes it no longer.

super::metrics! {
    BUILD = Gauge "etcd_operator_build_info" ["version"]
        "1; with the release of the operator.";
    LEADING = Gauge "etcd_operator_leading" []
        "1 where this replica works on clusters, 0 where it stands by for another one.";
    CLUSTERS = Gauge "etcd_operator_clusters" []
        "EtcdClusters that this replica works on.";
    LOOKS_IN_FLIGHT = Gauge "etcd_operator_looks_in_flight" []
        "Clusters that are being looked at now.";
    LOOK_DURATION = Histogram "etcd_operator_look_duration_seconds" []
        "How long looks at a cluster took: what was asked, decided, done and reported.";
    STEPS = Counter "etcd_operator_steps_total" ["step", "reason", "outcome"]
        "Steps taken, why, and how they went (done, not now, failed, refused).";
    STEP_DURATION = Histogram "etcd_operator_step_duration_seconds" ["step"]
        "How long steps that change something took.";
    CHANGE_DURATION = Histogram "etcd_operator_change_duration_seconds" ["kind"]
        "How long clusters were not Ready until they were again, by the phase that they came from.";
    API_REQUESTS = Counter "etcd_operator_api_requests_total" ["verb", "resource", "code"]
        "Requests to the Kubernetes API by the status code of the answer, which is 0 where none came.";
    ETCD_REQUESTS = Counter "etcd_operator_etcd_requests_total" ["call", "outcome"]
        "Calls to members of etcd, and how they went (ok, failed).";
    WATCH_FAILURES = Counter "etcd_operator_watch_failures_total" ["kind"]
        "How often the watch of a kind failed.";
    CACHE_FILLED = Gauge "etcd_operator_cache_filled" ["kind"]
        "1 once the cache of a kind was filled.";
    CACHE_NEWS = Gauge "etcd_operator_cache_news_seconds" ["kind"]
        "When the watch of a kind last brought something, in seconds since 1970.";
    CACHE_FAILING = Gauge "etcd_operator_cache_failing_since_seconds" ["kind"]
        "Since when the watch of a kind fails, in seconds since 1970; absent while it does not.";
    NAMESPACE_READABLE = Gauge "etcd_operator_namespace_readable" ["namespace"]
        "1 if everything in a watched namespace is known, 0 if its clusters are not looked at; all namespaces together have an empty name.";
    ADMISSION_REVIEWS = Counter "etcd_operator_admission_reviews_total" ["answer"]
        "Specs that the webhook of this replica judged, by its answer (allowed, refused, unreadable).";
    ADMISSION_CONFIGURED = Gauge "etcd_operator_admission_configured" []
        "1 if both webhook configurations are there, 0 if new specs are not checked; told by the replica that holds the lease.";
    ADMISSION_EXPIRES = Gauge "etcd_operator_admission_certificate_expires_seconds" []
        "When the certificate of the webhook expires, in seconds since 1970.";
    PROCESS_OPEN = Gauge "process_open_fds" []
        "Descriptors that are open.";
    PROCESS_MOST = Gauge "process_max_fds" []
        "Descriptors that may be open.";
    PROCESS_CPU = Counter "process_cpu_seconds_total" []
        "Processor time that the operator has used, in seconds.";
    PROCESS_MEMORY = Gauge "process_resident_memory_bytes" []
        "Memory that the operator holds.";
    PROCESS_START = Gauge "process_start_time_seconds" []
        "When the operator started, in seconds since 1970.";
}
