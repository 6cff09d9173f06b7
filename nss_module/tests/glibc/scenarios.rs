//! What must be true of the module in a program.

mod lookups;
mod processes;

/// The scenario for which the module is a build whose entry points panic.
pub(crate) const PANICKING: &str = "a_panic_does_not_end_the_program";
/// The scenario that runs some of the others under valgrind.
pub(crate) const UNDER_VALGRIND: &str = "lookups_are_clean_under_valgrind";

/// Every scenario by its name.
pub(crate) const ALL: &[(&str, fn())] = &[
    (PANICKING, lookups::a_panic_does_not_end_the_program),
    (UNDER_VALGRIND, processes::lookups_are_clean_under_valgrind),
    ("every_key_is_answered_from_the_map", lookups::every_key_is_answered_from_the_map),
    ("a_miss_goes_to_the_daemon", lookups::a_miss_goes_to_the_daemon),
    ("an_outage_is_no_absence", lookups::an_outage_is_no_absence),
    ("stale_entries_serve_while_the_daemon_is_away", lookups::stale_entries_serve_while_the_daemon_is_away),
    ("a_silent_daemon_is_left_alone", lookups::a_silent_daemon_is_left_alone),
    ("system_names_and_ids_are_not_asked_for", lookups::system_names_and_ids_are_not_asked_for),
    ("the_start_of_the_daemon_does_not_wait_for_it", lookups::the_start_of_the_daemon_does_not_wait_for_it),
    ("damaged_and_malicious_maps_are_not_believed", lookups::damaged_and_malicious_maps_are_not_believed),
    ("rubbish_is_no_map", lookups::rubbish_is_no_map),
    ("a_group_of_ten_thousand", lookups::a_group_of_ten_thousand),
    ("initgroups_appends_and_respects_the_limit", lookups::initgroups_appends_and_respects_the_limit),
    ("enumeration_lists_both_files_where_allowed", lookups::enumeration_lists_both_files_where_allowed),
    ("a_map_that_was_not_announced_is_found", lookups::a_map_that_was_not_announced_is_found),
    ("a_hit_makes_no_system_call", processes::a_hit_makes_no_system_call),
    ("threads_see_whole_entries_while_maps_change", processes::threads_see_whole_entries_while_maps_change),
    ("children_of_busy_threads_look_up", processes::children_of_busy_threads_look_up),
    ("a_thousand_threads_leave_nothing_open", processes::a_thousand_threads_leave_nothing_open),
    ("a_cancelled_thread_harms_nobody", processes::a_cancelled_thread_harms_nobody),
    ("loading_and_unloading_with_threads", processes::loading_and_unloading_with_threads),
    ("the_library_is_small_and_needs_only_libc", processes::the_library_is_small_and_needs_only_libc),
];
