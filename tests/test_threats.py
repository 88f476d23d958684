"""Every threat and every fault that nbagent must survive, and where that is tested.

The attacks of the self-check name the threat they belong to by its number (`Probe.threat`); here stands what is tested
in another way. `LATER` is what no part that exists can meet yet, with the part that brings it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nbagent.faces.selfcheck.check import PROBES

TESTS = Path(__file__).parent
THREATS: dict[int, tuple[str, str]] = {
    1: ("the host's files are read", ""),
    2: ("the host's files are written", "sandbox/test_mounts.py::test_what_is_mounted_below_data_can_t_be_written"),
    3: ("engine sockets and ports are reached", ""),
    4: ("privileges", "sandbox/test_docker.py::test_process_one_can_t_be_made_to_run_programs"),
    5: ("dangerous system calls", "sandbox/contract.py::test_sockets_are_of_three_families"),
    6: ("devices and the machine's switches", ""),
    7: (
        "one's own limits, other processes",
        "sandbox/contract_limits.py::test_the_limits_are_set_on_the_group "
        "sandbox/test_registry.py::test_docker_starts_nothing_unbounded "
        "sandbox/cgroup/test_systemd.py::test_a_scope_has_every_limit_that_systemd_may_set "
        "sandbox/contract.py::test_only_the_sandboxs_own_processes_are_seen",
    ),
    8: ("the host's environment and open files", "sandbox/contract.py::test_the_environment_is_an_allow_list"),
    9: (
        "the terminal is typed into or steered",
        "core/test_text.py::test_no_escape_but_colours_remains "
        "faces/test_view.py::test_output_of_a_sandbox_is_made_safe_wherever_it_shows "
        "faces/magic/test_magic.py::test_nothing_of_the_sandbox_steers_a_terminal "
        "faces/test_shell.py::test_only_what_draws_is_shown "
        "faces/test_selfcheck.py::test_a_hostile_sandbox_can_t_steer_the_terminal",
    ),
    10: (
        "files are planted that the host runs, or reads as its own",
        "core/test_session_log.py::test_somebody_elses_folder_is_refused "
        "core/test_session_log.py::test_nothing_is_written_through_a_link_in_the_folder "
        "session/test_session_list.py::test_somebody_elses_folder_is_no_session "
        "sandbox/contract.py::test_nothing_planted_outlives_the_kernel "
        "sandbox/test_results.py::test_nothing_that_landed_is_run_unasked "
        "core/test_options.py::test_nothing_is_read_from_the_current_folder "
        "packages/test_resolver.py::test_a_projects_configuration_is_not_read "
        "sandbox/test_environment.py::test_no_module_of_the_current_folder_is_run "
        "notebook/test_place.py::test_no_link_leads_to_a_notebook_elsewhere",
    ),
    11: ("another sandbox is reached", "sandbox/test_handoff.py::test_folders_are_private"),
    12: (
        "no engine is there",
        "faces/test_cli.py::test_doctor_without_an_engine_fails faces/test_selfcheck.py::test_no_engine_is_an_error "
        "sandbox/test_local.py::test_it_needs_the_level_trusted "
        "test_project.py::test_a_client_that_knows_no_provisioners_starts_nothing",
    ),
    13: (
        "the network is off",
        "sandbox/contract.py::test_no_name_is_resolved kernel/test_installs.py::test_names_are_no_way_out "
        "clients/test_managers.py::test_names_of_packages_are_no_way_out "
        "packages/test_allowance.py::test_of_the_names_in_a_lock_a_few_leave "
        "notebook/test_verify.py::test_a_notebook_is_trusted_only_by_an_option_of_the_command "
        "session/test_session_names.py::test_a_session_has_one_allowance",
    ),
    14: ("private and metadata addresses", "sandbox/contract.py::test_the_host_s_network_at_the_trusted_level_only"),
    15: (
        "the allow-list of hosts is confused",
        "egress/test_hosts.py::test_any_other_form_is_denied "
        "egress/test_proxy.py::test_a_host_that_looks_like_another_is_denied "
        "egress/test_proxy.py::test_a_request_can_not_hide_another "
        "egress/test_proxy.py::test_a_redirect_is_a_new_request "
        "egress/test_proxy.py::test_a_tunnel_is_for_its_host_only "
        "egress/test_proxy.py::test_a_second_hello_is_for_the_same_host "
        "egress/test_dial.py::test_an_address_that_is_not_out_there_is_refused",
    ),
    16: ("a tool ignores the proxy", ""),
    17: (
        "fork and memory bombs",
        "sandbox/contract_limits.py::test_a_fork_bomb_is_bounded "
        "sandbox/contract_limits.py::test_memory_of_the_kernel_is_bounded "
        "sandbox/contract_limits.py::test_memory_of_a_child_is_bounded "
        "sandbox/contract_limits.py::test_orphans_don_t_count_for_ever",
    ),
    18: ("code that doesn't stop", "sandbox/contract_limits.py::test_what_doesn_t_stop_is_killed"),
    19: ("the disk is filled", "sandbox/contract_limits.py::test_a_million_files_stay_inside"),
    20: (
        "a flood of output, and files that hold up who reads it",
        "kernel/test_kernel.py::test_much_output_costs_little_memory "
        "kernel/test_kernel.py::test_a_flood_does_not_stop_others "
        "sandbox/test_socket_options.py::test_no_file_that_code_sends_holds_the_host_up "
        "kernel/test_output_bounds.py::test_an_oversize_representation_costs_nothing "
        "sandbox/test_bounded.py::test_a_message_that_never_ends_takes_little_memory "
        "sandbox/test_bounded.py::test_a_client_that_says_nothing_hears_no_more_than_it_can_hold "
        "faces/lab/test_channel.py::test_a_slow_page_costs_one_batch_and_loses_nothing "
        "faces/lab/test_files.py::test_large_outputs_come_cut_with_a_way_to_the_rest",
    ),
    21: (
        "broken MIME bundles",
        "kernel/test_outputs.py::test_any_messages_leave_a_valid_notebook "
        "kernel/test_mime.py::test_clean_cuts_deep_nesting kernel/test_kernel.py::test_values_that_json_has_not",
    ),
    22: (
        "forged messages",
        "kernel/test_router.py::test_forged_output_changes_no_other_cell "
        "kernel/test_router.py::test_an_early_idle_loses_nothing_for_others "
        "kernel/test_router.py::test_junk_is_counted_and_survived "
        "kernel/test_kernel_connection.py::test_frames_without_a_message",
    ),
    23: (
        "questions, comms and payloads",
        "kernel/test_kernel.py::test_questions_are_refused kernel/test_router.py::test_unknown_comms_are_ignored "
        "kernel/test_kernel.py::test_payloads_do_nothing_here",
    ),
    24: (
        "the kernel becomes something else; representations that loop",
        "kernel/test_timeout.py::test_a_kernel_that_became_something_else "
        "kernel/test_timeout.py::test_a_representation_that_loops_ends "
        "kernel/test_collector.py::test_a_sandbox_that_lies_gives_nothing_away",
    ),
    25: (
        "hostile output files",
        "kernel/test_collector.py::test_only_plain_files_are_collected "
        "kernel/test_collector.py::test_hostile_names_become_harmless "
        "kernel/test_collector.py::test_names_that_differ_by_case_or_folder_stay_apart "
        "kernel/test_collector.py::test_nothing_is_written_through_a_link_on_the_host "
        "kernel/test_collector.py::test_a_huge_file_stays_and_that_is_said "
        "kernel/test_archives.py::test_a_hostile_archive_is_a_limit_error "
        "kernel/test_unpack_inside.py::test_no_header_of_an_archive_takes_much_memory",
    ),
    26: (
        "scripts in outputs",
        "safety/sanitize/test_markup.py::test_nothing_acts "
        "safety/sanitize/test_markup.py::test_no_attribute_holds_signs_of_a_tag "
        "safety/sanitize/test_outputs.py::test_javascript_is_left_out "
        "safety/sanitize/test_outputs.py::test_metadata_can_t_steer_a_renderer "
        "safety/sanitize/test_outputs.py::test_only_jupyters_own_widgets_stay "
        "safety/sanitize/test_outputs.py::test_no_figure_changes_what_all_objects_of_a_page_have "
        "faces/lab/test_files.py::test_what_a_session_made_is_saved_and_never_shown_as_a_page "
        "faces/lab/browser/test_hostile.py::test_a_sandboxed_kernel_does_nothing_to_the_page "
        "faces/lab/test_distrust.py::test_a_sandboxed_kernel_is_heard_and_does_nothing "
        "faces/lab/test_distrust.py::test_a_notebook_of_sandboxed_code_is_read_as_what_does_nothing "
        "faces/lab/test_kernel_messages.py::test_a_kernel_says_no_more_of_its_state_than_it_knows",
    ),
    27: (
        "output that gives orders",
        "packages/test_installer.py::test_policy_decides_by_normalised_names_and_for_dependencies",
    ),
    28: (
        "invented, young or odd packages",
        "packages/test_resolver.py::test_a_name_that_does_not_exist_is_refused "
        "packages/test_resolver.py::test_a_release_that_is_too_young_is_refused "
        "packages/test_resolver.py::test_source_distributions_are_not_built "
        "packages/test_resolver.py::test_a_name_of_a_private_index_is_taken_from_there_only "
        "packages/test_requirements.py::test_only_plain_requirements_are_accepted "
        "kernel/test_installs.py::test_pip_takes_names_only",
    ),
    29: (
        "hostile wheels",
        "packages/test_unpacked.py::test_a_wheel_that_reaches_into_the_kernel_is_refused "
        "packages/test_unpacked.py::test_a_wheel_that_climbs_out_writes_nothing_outside "
        "packages/test_unpacked.py::test_scripts_of_a_wheel_land_nowhere_else "
        "packages/test_resolver.py::test_a_uv_that_writes_outside_of_its_folder_is_refused "
        "packages/test_resolver.py::test_a_wheel_with_another_hash_is_refused",
    ),
    30: (
        "links and hidden names in what a person gave",
        "sandbox/test_tree.py::test_links_that_lead_out_or_to_nothing_are_left_out "
        "sandbox/test_mirror.py::test_what_changes_later_is_brought_in "
        "sandbox/test_mirror.py::test_a_link_that_comes_between_is_not_followed "
        "sandbox/contract_data.py::test_links_lead_nowhere_outside "
        "sandbox/contract_data.py::test_data_is_seen_as_it_is "
        "sandbox/test_mounts.py::test_a_link_that_leads_out_of_its_folder_is_refused "
        "clients/test_programs.py::test_a_cloned_repository_reads_nothing_of_the_person_s "
        "notebook/test_inputs.py::test_a_link_of_a_repository_is_not_followed_out_of_it "
        "notebook/test_inputs.py::test_data_that_an_export_remembered_is_not_looked_for_behind_a_link "
        "faces/lab/test_sessions.py::test_wrong_use_is_a_sentence "
        "forge/test_porting.py::test_a_link_out_of_the_folder_is_not_read",
    ),
    31: (
        "a small reply that parses huge",
        "kernel/test_messages.py::test_hostile_replies_of_every_kind_cost_little_memory "
        "kernel/test_inside_calls.py::test_hostile_results_stall_nobody "
        "kernel/test_describe.py::test_short_profiles_take_no_more_memory_than_long_ones "
        "agent/dataset/test_keys.py::test_what_a_sandbox_says_of_its_columns_costs_little "
        "agent/test_claims_cost.py::test_code_that_was_written_to_be_read_costs_little "
        "sandbox/test_receiver.py::test_names_take_little_of_the_servers_memory "
        "sandbox/test_bounded.py::test_what_a_client_can_t_bear_is_left_out "
        "faces/lab/test_distrust.py::test_no_result_holds_up_the_server_that_opens_it "
        "kernel/test_inside_calls.py::test_whatever_comes_back_is_a_value_or_none "
        "test_project.py::test_no_other_parser_reads_what_sandboxes_say",
    ),
    32: (
        "kernel memory that no group is charged for, and what the whole machine shares, connections and huge pages too",
        "sandbox/test_overuse_inside.py::test_a_sandbox_that_takes_too_much_is_ended_and_says_so "
        "sandbox/test_overuse_inside.py::test_a_thread_has_no_table_of_open_files_of_its_own "
        "sandbox/test_overuse_inside.py::test_others_locks_are_nobody_s_fault "
        "sandbox/test_overuse_inside.py::test_locks_of_one_process_are_said_to_be_taken "
        "sandbox/test_socket_options.py::test_options_that_cost_memory_are_not_there "
        "sandbox/test_socket_options.py::test_buffers_of_connections_stay_small "
        "sandbox/test_socket_options.py::test_few_connections_that_have_ended_are_remembered "
        "sandbox/test_socket_options.py::test_options_of_a_process_that_cost_something_do_not_exist "
        "sandbox/test_socket_options.py::test_sockets_without_an_address_count",
    ),
    33: (
        "a notebook that is merely opened loads from elsewhere",
        "safety/sanitize/test_browser.py::test_jupyterlab_asks_nobody "
        "safety/sanitize/test_browser.py::test_a_page_of_nbconvert_asks_nobody "
        "core/test_markdown.py::test_no_sign_of_a_picture_or_of_html_is_left "
        "safety/sanitize/test_markup.py::test_nothing_that_loads_is_left "
        "safety/sanitize/test_outputs.py::test_a_widget_is_judged_by_what_draws_it "
        "safety/sanitize/test_outputs.py::test_what_styles_a_widget_loads_nothing "
        "notebook/test_export.py::test_no_name_of_data_loads_anything",
    ),
    34: (
        "a server of nbagent's on loopback is reached by another user or a page",
        "faces/test_mcp_http.py::test_without_the_token_nobody_gets_in "
        "faces/test_mcp_http.py::test_another_user_has_no_token "
        "faces/test_mcp_http.py::test_a_socket_is_of_one_user "
        "faces/test_mcp_http.py::test_a_request_for_another_host_is_refused "
        "faces/test_mcp_http.py::test_a_page_that_was_not_allowed_is_refused "
        "faces/lab/test_sessions.py::test_strangers_get_nothing "
        "faces/lab/test_sessions.py::test_a_change_needs_the_xsrf_token "
        "faces/lab/test_sessions.py::test_an_authorizer_is_asked "
        "faces/lab/test_channel.py::test_a_cookie_from_another_origin_gets_no_channel",
    ),
    35: (
        "output that pretends to be another cell's",
        "kernel/test_router.py::test_forged_output_changes_no_other_cell "
        "kernel/test_router.py::test_an_update_that_claims_another_cell_is_told_with_the_one_that_ran "
        "observability/audit/test_entries.py::test_late_output_is_told_once_for_each_moment "
        "kernel/test_router.py::test_all_that_came_between_two_cells_is_told_as_that "
        "notebook/test_record.py::test_an_update_changes_those_cells_that_it_is_told_of "
        "notebook/test_shown.py::test_late_output_says_so "
        "safety/sanitize/test_markup.py::test_a_drawing_stays_in_its_box",
    ),
    36: (
        "one session, or the packages of a notebook's lock, fill the host's disk",
        "session/test_quota.py::test_the_hosts_disk_is_bounded "
        "session/test_undo.py::test_a_question_is_undone_and_brought_back "
        "packages/test_allowance.py::test_the_packages_of_a_lock_have_it_too "
        "packages/test_allowance.py::test_what_packages_unpack_to_is_bounded_while_they_are",
    ),
    37: (
        "process 1 and the forwarder are slowed down, signalled or blinded",
        "sandbox/test_supervisor.py::test_code_can_t_get_at_process_1 "
        "sandbox/test_way_out.py::test_code_can_t_get_at_the_forwarder "
        "sandbox/test_commands_inside.py::test_what_can_t_be_seen_isn_t_executed",
    ),
    38: (
        "text that nbagent's own readers choke on",
        "safety/sanitize/test_markup.py::test_thousands_of_small_outputs_cost_little "
        "test_hostile_text.py::test_a_reader_ends_soon "
        "agent/test_claims_cost.py::test_hostile_code_is_read_soon "
        "agent/test_claims_cost.py::test_numbers_with_the_same_hash_take_no_longer "
        "agent/dataset/test_groups.py::test_no_names_end_the_question "
        "faces/test_pictures.py::test_the_figures_of_a_cell_take_seconds_at_most "
        "test_hostile_text.py::test_what_hostile_code_shows_is_read "
        "notebook/test_document.py::test_what_is_odd_in_a_notebook_is_refused_or_read "
        "notebook/compare/test_masks.py::test_what_could_be_read_in_many_ways_is_read_in_one "
        "notebook/test_run.py::test_a_notebook_that_parses_to_gigabytes_is_refused "
        "packages/test_allowance.py::test_what_an_index_says_takes_no_more_memory_than_it_may "
        "faces/magic/test_variables.py::test_no_description_of_pandas_is_read_that_holds_its_reader_up "
        "faces/magic/test_variables.py::test_neither_a_column_nor_its_type_says_much_of_itself "
        "session/test_session.py::test_whatever_a_cell_prints_the_turn_ends_well "
        "core/test_session_log.py::test_a_reader_that_fails_costs_nobody_else_an_event",
    ),
    39: (
        "what a sandboxed kernel made acts in a page later or elsewhere: copied, beside another kernel, as a reply, "
        "printed, or saved as a file",
        "faces/lab/browser/test_hostile.py::test_outputs_stay_those_of_a_sandboxed_kernel "
        "faces/lab/browser/test_hostile.py::test_replies_of_a_sandboxed_kernel_do_nothing "
        "faces/lab/browser/test_hostile.py::test_a_printed_notebook_loads_nothing "
        "faces/lab/browser/test_hostile.py::test_what_code_has_saved_does_nothing "
        "faces/lab/browser/test_hostile.py::test_no_address_draws_what_code_has_saved "
        "faces/lab/browser/test_hostile.py::test_widgets_in_a_notebook_of_a_sandboxed_kernel_are_not_restored "
        "faces/lab/test_notebooks.py::test_the_servers_own_export_runs_nothing_that_code_has_saved",
    ),
    40: (
        "a notebook that shows something else than its cells is called the same",
        "notebook/compare/test_masks.py::test_nothing_can_be_said_within_what_is_masked "
        "notebook/compare/test_widgets.py::test_a_widget_that_no_run_leaves_there_is_told "
        "notebook/compare/test_cell.py::test_errors_and_missing_outputs_are_found "
        "notebook/test_verify.py::test_what_stands_below_cells_that_give_no_results_is_compared "
        "notebook/test_verify.py::test_what_browsers_draw_of_a_picture_is_compared "
        "notebook/test_verify.py::test_nothing_that_a_notebook_says_looks_like_a_line_of_ours",
    ),
}
"""What it is, and tests beside the self-check's attacks."""

FAULTS: dict[int, tuple[str, str]] = {
    1: (
        "the kernel dies",
        "kernel/test_recovery.py::test_a_death_is_told_and_mended "
        "kernel/test_recovery.py::test_a_kernel_that_died_between_cells_is_replaced_and_the_next_cell_says_so "
        "kernel/test_timeout.py::test_all_that_was_sent_before_a_death_is_shown",
    ),
    2: (
        "out of memory",
        "sandbox/contract_limits.py::test_memory_of_the_kernel_is_bounded "
        "sandbox/contract_limits.py::test_memory_of_a_child_is_bounded",
    ),
    3: (
        "an interrupt is swallowed",
        "kernel/test_timeout.py::test_a_swallowed_interrupt_ends_in_time "
        "kernel/test_timeout.py::test_a_timeout_keeps_variables",
    ),
    4: (
        "half an answer, late output",
        "kernel/test_timeout.py::test_an_end_that_is_withheld_is_bounded "
        "kernel/test_router.py::test_late_output_is_told",
    ),
    5: (
        "the start hangs or dies",
        "kernel/test_process.py::test_a_start_that_hangs_is_an_error "
        "kernel/test_process.py::test_a_start_that_dies_is_told kernel/test_recovery.py::test_restarts_are_bounded",
    ),
    6: (
        "image, daemon or container are gone",
        "sandbox/test_docker.py::test_an_image_that_is_not_there_is_an_error "
        "sandbox/test_docker.py::test_a_daemon_that_goes_away_is_an_error "
        "sandbox/test_docker.py::test_a_container_that_is_removed_is_a_death "
        "sandbox/test_bwrap_refusal.py::test_the_cause_and_its_command_are_named "
        "clients/test_server.py::test_the_page_is_told_why_a_kernel_can_t_start",
    ),
    7: ("a gateway drops the connection", ""),
    8: (
        "long socket paths, a full disk",
        "sandbox/test_handoff.py::test_a_long_runtime_folder_is_not_used "
        "core/test_fileio.py::test_without_room_the_old_file_stays",
    ),
    9: (
        "the controller is killed",
        "session/test_session.py::test_a_killed_process_loses_at_most_the_running_cell "
        "clients/test_managers.py::test_no_sandbox_outlives_its_client",
    ),
    10: (
        "Ctrl-C once and twice",
        "faces/test_ctrl_c.py::test_ctrl_c_once_stops_the_cell_and_the_model_is_told "
        "faces/test_ctrl_c.py::test_ctrl_c_twice_ends_all",
    ),
    11: (
        "the package index fails",
        "packages/test_resolver.py::test_an_index_that_is_gone_is_an_error "
        "packages/test_resolver.py::test_a_truncated_wheel_is_an_error "
        "kernel/test_runner.py::test_a_package_without_the_module_is_installed_once "
        "packages/test_installer.py::test_an_installed_version_is_not_replaced",
    ),
    12: ("the clock jumps", "kernel/test_timeout.py::test_a_clock_that_jumps_changes_no_limit"),
    13: (
        "the model's provider fails",
        "agent/test_build.py::test_a_cut_stream_is_asked_for_again "
        "agent/test_build.py::test_retry_after_is_waited_for "
        "agent/test_build.py::test_an_unknown_tool_is_told_to_the_model "
        "agent/test_build.py::test_parallel_calls_run_one_at_a_time_in_order "
        "agent/test_build.py::test_an_empty_reply_is_asked_for_again",
    ),
    14: (
        "odd text",
        "kernel/test_kernel.py::test_names_that_are_not_text_are_printed "
        "kernel/test_kernel.py::test_a_progress_bar_ends_as_its_last_state "
        "kernel/test_streams.py::test_text_of_100_mb_leaves_memory_flat",
    ),
    15: (
        "a notebook no longer gives the same",
        "notebook/test_verify.py::test_changed_code_text_data_and_lock_are_named "
        "notebook/test_verify.py::test_another_package_than_the_locks_is_not_installed "
        "notebook/test_verify.py::test_a_sweep_names_what_a_cell_depends_on",
    ),
}
"""What it is, and its tests."""

LATER = {
    "F7": "the gateway engine",
}


@pytest.mark.parametrize(
    "number", [*map(str, THREATS), *(f"F{number}" for number in FAULTS)], ids=lambda number: f"threat-{number}"
)
def test_every_threat_is_tested(number: str) -> None:
    """By attacks of the self-check, by tests that exist, or by a part that is still to come."""
    _, tests = FAULTS[int(number[1:])] if number.startswith("F") else THREATS[int(number)]
    attacks = [probe for probe in PROBES if probe.threat == number]
    assert bool(attacks or tests) != (number in LATER)
    for test in tests.split():
        file, name = test.split("::")
        assert re.search(rf"^ *(async )?def {name}\(", (TESTS / file).read_text(), re.MULTILINE), test


def test_every_attack_belongs_to_a_threat() -> None:
    """Or says that it is in no list."""
    assert {probe.threat for probe in PROBES} <= {*map(str, THREATS), "+"}
    assert sum(probe.threat == "+" for probe in PROBES) > 15
